/* See page_files.h. */
#include "page_files.h"

#define EMBED(name_, file_) \
    __asm__(".section .rodata\n" \
            ".global " #name_ "\n" \
            ".hidden " #name_ "\n" #name_ ":\n" \
            ".incbin \"" PAGE "/" file_ "\"\n" \
            ".global " #name_ "_end\n" \
            ".hidden " #name_ "_end\n" #name_ "_end:\n" \
            ".byte 0\n" \
            ".previous\n");

EMBED(page_index, "index.html")
EMBED(page_style, "style.css")
EMBED(page_data, "data.js")
EMBED(page_ui, "ui.js")
EMBED(page_memory, "memory.js")
EMBED(page_views, "views.js")
EMBED(page_models, "models.js")
EMBED(page_script, "page.js")
EMBED(page_vendor, "vendor/vendor.js")
EMBED(page_vendor_style, "vendor/vendor.css")
