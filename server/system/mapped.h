/* Maps files for reading. If another program truncates a mapped file, or its disk fails, a read of
 * the lost pages raises SIGBUS, which would end the process. The signal handler maps a page of
 * zeros at the address and marks the mapping as damaged, so that only the requests that use this
 * file fail. A cut inside of a page raises no signal, since the rest of the page reads as zeros;
 * srv_mapped_check notices it by the size of the file. Any thread may call these functions. */
#ifndef SRV_MAPPED_H
#define SRV_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

typedef struct srv_mapped srv_mapped;

/* Installs the signal handler. Call it once, before the first mapping is read. */
void srv_mapped_start(void);
/* Maps a whole regular file. `dir`, `name` and `follow` are as for srv_file_open; `dir` must stay
 * open as long as the mapping. Returns 0 or an errno value: ENODATA, the file is empty, or one of
 * srv_file_open. */
int srv_mapped_open(int dir, const char *name, bool follow, srv_mapped **out);
/* Maps a whole regular file that is open; the descriptor may be closed afterwards. srv_mapped_check
 * notices only lost pages of it, since its name is not known. Returns as srv_mapped_open. */
int srv_mapped_open_fd(int fd, srv_mapped **out);
/* Removes a mapping that no thread reads any longer. NULL is fine. */
void srv_mapped_close(srv_mapped *m);

const void *srv_mapped_data(const srv_mapped *m);
size_t srv_mapped_size(const srv_mapped *m);
/* Looks whether the file is still as long as its mapping, and returns whether the mapping is
 * damaged: some of the data that was read may have been zeros instead of bytes of the file. Call it
 * when the data has been used. It looks by the name of the file, not by a descriptor, of which
 * thousands of mappings would need too many; a file that has lost its name can hardly be cut. */
bool srv_mapped_check(srv_mapped *m);
/* Returns whether a page was lost, or srv_mapped_check has found damage, without looking anew. */
bool srv_mapped_is_hurt(const srv_mapped *m);

#endif
