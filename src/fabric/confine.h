/* The rights of the fabric process; see confine.c. */
#ifndef AM_FABRIC_CONFINE_H
#define AM_FABRIC_CONFINE_H

/* Before UCX is opened: files. */
void am_confine_files(void);
/* When UCX is open: from then on this process can do little but serve.  -1: it cannot. */
int am_confine_calls(void);

#endif
