// The search of the site.  It replaces the search of mkdocs, which needs a server and does not find Chinese.
//
// lunr splits a text at its spaces and drops what is not Latin.  Here each run of Chinese characters becomes its pairs
// (虚拟内存: 虚拟, 拟内, 内存), and a query asks for all pairs of its runs.
"use strict";

const HAN = /[\u3400-\u9fff]+/g;

function pairs(run) {
  return run.length === 1 ? [run] : Array.from(run.slice(1), (_, i) => run.slice(i, i + 2));
}

function indexMake(lunr, documents) {
  const split = lunr.tokenizer;
  const tokenizer = (text, metadata) => split(String(text || "").replace(HAN, (run) => ` ${pairs(run).join(" ")} `), metadata);
  const trimmer = (token) => (token.toString().match(HAN) ? token : lunr.trimmer(token));
  lunr.Pipeline.registerFunction(trimmer, "trimmer of Chinese");
  return lunr(function () {
    this.tokenizer = tokenizer;
    this.pipeline.before(lunr.trimmer, trimmer);
    this.pipeline.remove(lunr.trimmer);
    this.field("title", { boost: 10 });
    this.field("text");
    this.ref("location");
    documents.forEach((document) => this.add(document));
  });
}

// One character alone is found inside pairs.
function termsOf(query) {
  const words = query.replace(/[+\-~^*:，。、：；？（）]/g, " ");
  return words.replace(HAN, (run) => (run.length === 1 ? ` +*${run}* ` : ` +${pairs(run).join(" +")} `));
}

// What is shown of a document: the text around the first word of the query.
function summary(text, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0);
  const from = Math.max(0, Math.min(...found, text.length) - 60);
  return found.length ? text.slice(from, from + 200) : text.slice(0, 200);
}

function show(results, query, documents) {
  const list = document.getElementById("mkdocs-search-results");
  list.textContent = "";
  if (results.length === 0) {
    list.append(Object.assign(document.createElement("p"), { textContent: "No results: 没有结果" }));
  }
  for (const { ref } of results.slice(0, 50)) {
    const found = documents.find((one) => one.location === ref);
    const article = document.createElement("article");
    const title = document.createElement("h3");
    title.append(Object.assign(document.createElement("a"), { href: `${base_url}/${ref}`, textContent: found.title }));
    article.append(title, Object.assign(document.createElement("p"), { textContent: summary(found.text, query) }));
    list.append(article);
  }
}

function load(name, then) {
  document.head.append(Object.assign(document.createElement("script"), { src: `${base_url}/search/${name}`, onload: then }));
}

// The index is made at the first query.
function start() {
  let index = null;
  const field = document.getElementById("mkdocs-search-query");
  const search = () => {
    const query = field.value.trim();
    if (index === null) {
      index = undefined;
      load("lunr.js", () => load("documents.js", () => {
        index = indexMake(window.lunr, window.search_documents);
        search();
      }));
    } else if (index !== undefined) {
      show(query ? index.search(termsOf(query)) : [], query, window.search_documents);
    }
  };
  field.addEventListener("input", search);
  const asked = new URLSearchParams(window.location.search).get("q");
  if (asked) {
    field.value = asked;
    search();
  }
}

document.addEventListener("DOMContentLoaded", start);
