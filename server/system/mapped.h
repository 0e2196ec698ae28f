/* Maps files for reading. If another program truncates a mapped file, or its disk fails, a read of
 * the lost part raises SIGBUS, which would end the process. The signal handler maps a page of zeros
 * at the address and marks the mapping as damaged, so that only the requests that use this file
 * fail. Any thread may call these functions. */
#ifndef SRV_MAPPED_H
#define SRV_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

typedef struct srv_mapped srv_mapped;

/* Installs the signal handler. Call it once, before the first mapping is read. */
void srv_mapped_start(void);
/* Maps the first `size` bytes of an open file, which may be closed afterwards. Returns 0 or an
 * errno value. */
int srv_mapped_open(int fd, size_t size, srv_mapped **out);
/* Removes a mapping that no thread reads any longer. NULL is fine. */
void srv_mapped_close(srv_mapped *m);

const void *srv_mapped_data(const srv_mapped *m);
size_t srv_mapped_size(const srv_mapped *m);
/* Returns whether the mapping is damaged: some of the data that was read were zeros instead of
 * bytes of the file. */
bool srv_mapped_is_hurt(const srv_mapped *m);

#endif
