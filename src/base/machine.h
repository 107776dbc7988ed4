/*
 * Properties of the machine: memory that this process may use, NUMA nodes, a unique
 * name.
 */
#ifndef AM_BASE_MACHINE_H
#define AM_BASE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before each path of /proc, /sys and /etc; tests have another one. */
extern const char *am_machine_root;

/* Reads the beginning of a file as text; false if it cannot be read. */
bool am_machine_read(const char *path, char *text, size_t size);

/* `installed` bytes, the machine's memory, or the limit of this process's control group. */
size_t am_machine_memory(size_t installed);

/* Bytes that can still be had, now: of the machine, and of the control group. */
size_t am_machine_available(void);

/* Whether memory files get huge pages here.  The reason, in words, is put into AM_MACHINE_WHY bytes. */
#define AM_MACHINE_WHY 512
bool am_machine_has_huge_pages(bool knows_collapse, char *ret_why);

/* Whether the kernel can make huge pages of a memory file's pages (MADV_COLLAPSE). */
bool am_machine_knows_collapse(void);
/* The same, and the system has not turned transparent huge pages of 2 MB off. */
bool am_machine_can_collapse(bool knows_collapse);

/* A number of the kernel's settings, vm.max_map_count as "vm", "max_map_count"; 0: unknown. */
size_t am_machine_sysctl(const char *folder, const char *name);

bool am_machine_has_node(int node);
/* The node of the processor that this thread is on. */
int am_machine_current_node(void);

/*
 * An identifier made from a name: RFC 9562, version 8.  The same space and name always give the
 * same identifier.
 */
#define AM_UUID_SIZE 16
void am_uuid_make(const uint8_t *space, const char *name, uint8_t *ret_uuid);

/*
 * 16 bytes that are the same for all that runs on this machine, in containers too, from
 * its boot on; the same everywhere if the system does not provide it.
 */
void am_machine_boot_id(uint8_t *ret_id);

#endif
