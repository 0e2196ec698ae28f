/* Maps files for reading. If a mapped file is truncated or its disk fails, a read raises SIGBUS,
 * which would end the process. The handler of this signal maps a page of zeros at the address and
 * marks the mapping, so that only the requests that read the file fail. Any thread. */
#ifndef SRV_MAPPED_H
#define SRV_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

typedef struct srv_mapped srv_mapped;

/* Installs the signal handler. Call it once, before the first mapping is read. */
void srv_mapped_start(void);
/* Maps all of a file of `size` bytes. Returns 0 or an errno value. */
int srv_mapped_open(int fd, size_t size, srv_mapped **out);
/* Removes a mapping that no thread reads any longer. NULL is fine. */
void srv_mapped_close(srv_mapped *m);

const void *srv_mapped_data(const srv_mapped *m);
size_t srv_mapped_size(const srv_mapped *m);
/* Returns whether zeros were read instead of bytes of the file. */
bool srv_mapped_is_hurt(const srv_mapped *m);

#endif
