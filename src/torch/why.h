/* Why a device has no pool. */
#ifndef AM_TORCH_WHY_H
#define AM_TORCH_WHY_H

#ifdef __cplusplus
extern "C" {
#endif

/* After a failed call of this thread for the device; NULL: it has a pool. */
const char *torch_why_no_pool(int device);

#ifdef __cplusplus
}
#endif

#endif
