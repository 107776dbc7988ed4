/*
 * The placement engine beside a model of what it may do.
 *
 * The model plays the memory, the addresses and the streams behind the engine's operations
 * table.  It knows for each unit of each frame which stream freed it last, and stops the program
 * when the engine maps twice, unmaps under queued work, gives two blocks the same byte, changes
 * the memory behind a live block, or loses a page.
 */
#ifndef TEST_UNIT_FIT_MODEL_H
#define TEST_UNIT_FIT_MODEL_H

#include <stddef.h>
#include <stdint.h>

/*
 * Plays the operations that the bytes stand for, then frees everything and looks for what is
 * left.  Returns a hash of all addresses that were given.
 */
uint64_t fit_model_run(const uint8_t *bytes, size_t n_bytes);

#endif
