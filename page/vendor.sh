#!/bin/sh
# Bundles the libraries of the report page, from npm, by page/package-lock.json: page/vendor.sh
#
# The result in page/vendor/ is kept in the repository, so that a build needs neither npm nor a network.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp package.json package-lock.json vendor.js "$work"
(
    cd "$work"
    npm ci --no-audit --no-fund --ignore-scripts >/dev/null
    node_modules/.bin/esbuild vendor.js --bundle --minify --format=iife --target=es2020 \
        --legal-comments=none --outfile=vendor.min.js
    {
        for package in node_modules/d3-* node_modules/internmap; do
            [ -e "$package/package.json" ] || continue
            echo "---- $(node -p "const p = require('./$package/package.json'); p.name + ' ' + p.version + ', ' + p.license")"
            cat "$package"/LICENSE*
            echo
        done
    } >LICENSES
)
cp "$work/vendor.min.js" vendor/vendor.js
cp "$work/LICENSES" vendor/LICENSES
cp "$work/node_modules/d3-flame-graph/dist/d3-flamegraph.css" vendor/vendor.css
