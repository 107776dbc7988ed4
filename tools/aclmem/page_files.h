/* The files of the page (page/), which are part of the command. */
#ifndef ACLMEM_PAGE_FILES_H
#define ACLMEM_PAGE_FILES_H

extern const char page_index[], page_index_end[];
extern const char page_style[], page_style_end[];
extern const char page_data[], page_data_end[];
extern const char page_ui[], page_ui_end[];
extern const char page_memory[], page_memory_end[];
extern const char page_views[], page_views_end[];
extern const char page_models[], page_models_end[];
extern const char page_script[], page_script_end[];
extern const char page_vendor[], page_vendor_end[];
extern const char page_vendor_style[], page_vendor_style_end[];

#endif
