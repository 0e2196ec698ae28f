/* Files mapped for reading, so that one that is cut short, or a disk that fails, costs the requests
 * that read it: the system says so by a signal (SIGBUS), which would end the process. Its handler
 * puts a page of zeros in the place and marks the mapping. Any thread. */
#ifndef SRV_MAPPED_H
#define SRV_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

typedef struct srv_mapped srv_mapped;

/* Take the signal; once, before the first mapping is read. */
void srv_mapped_start(void);
/* All of a file of `size` bytes; 0 or an errno value. */
int srv_mapped_open(int fd, size_t size, srv_mapped **out);
/* Nobody reads it any longer; NULL is fine. */
void srv_mapped_close(srv_mapped *m);

const void *srv_mapped_data(const srv_mapped *m);
size_t srv_mapped_size(const srv_mapped *m);
/* Were zeros read somewhere instead of what the file held? */
bool srv_mapped_is_hurt(const srv_mapped *m);

#endif
