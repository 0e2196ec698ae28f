/* Maps files for reading. If another program truncates a mapped file, or its disk fails, a read of
 * the lost pages raises SIGBUS, which would end the process. The signal handler maps a page of
 * zeros at the address and marks the mapping as damaged, so that only the requests that use this
 * file fail. A truncation inside a page raises no signal, because the rest of the page reads as
 * zeros; srv_mapped_check detects it by the size of the file. It detects other changes in place by
 * the times of the file. It cannot detect one kind of change: another program writes, through a
 * mapping, to a page that it wrote before and that has not been written to disk since. Any thread
 * may call these functions. */
#ifndef SRV_MAPPED_H
#define SRV_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_mapped srv_mapped;

/* Installs the signal handler. Call it once, before the first mapping is read. */
void srv_mapped_start(void);
/* Maps a whole regular file. `dir`, `name` and `follow` are arguments of srv_file_open. `dir` must
 * stay open as long as the mapping. Returns 0 or an errno value: ENODATA if the file is empty, or
 * an error of srv_file_open. */
int srv_mapped_open(int dir, const char *name, bool follow, srv_mapped **out);
/* Maps a whole regular file that is open; the descriptor may be closed afterwards. Until
 * srv_mapped_name is called, srv_mapped_check detects only lost pages. Errors are those of
 * srv_mapped_open. */
int srv_mapped_open_fd(int fd, srv_mapped **out);
/* Sets the present name of a file that was mapped by srv_mapped_open_fd. srv_mapped_check finds the
 * file by this name. false: out of memory. */
bool srv_mapped_name(srv_mapped *m, int dir, const char *name);
/* Removes a mapping. No thread may read it any longer. NULL is fine. */
void srv_mapped_close(srv_mapped *m);

const void *srv_mapped_data(const srv_mapped *m);
size_t srv_mapped_size(const srv_mapped *m);

typedef enum srv_mapped_state {
    SRV_MAPPED_SAME,
    SRV_MAPPED_TOUCHED, /* the bytes may have changed: the ctime is another one, or the file was
                           changed so shortly before the last check that a later change could have
                           the same ctime */
    SRV_MAPPED_WRITTEN, /* the bytes have changed: a program has written to the file */
    SRV_MAPPED_OTHER,   /* another file has the name now; the bytes may be unchanged */
    SRV_MAPPED_HURT,    /* some of the data that was read may have been zeros instead of bytes */
} srv_mapped_state;
/* The times of a file, in ns since 1970. */
typedef struct srv_mapped_times {
    int64_t written; /* mtime */
    int64_t changed; /* ctime; 0: a later change may have the same ctime */
} srv_mapped_times;
/* Compares the file with its state when it was mapped, or at the last accepted check. Call this
 * after the data has been used. Sets *seen to the times of the file. The file is found by its name
 * and not by a descriptor, because thousands of mappings would need too many descriptors. (A file
 * that has lost its name can hardly be changed.) */
srv_mapped_state srv_mapped_check(srv_mapped *m, srv_mapped_times *seen);
/* Accepts the times *seen of a check. The caller must have read the bytes and found them
 * unchanged. */
void srv_mapped_accept(srv_mapped *m, const srv_mapped_times *seen);
/* Returns whether a page was lost, or an earlier srv_mapped_check has found that the file is
 * shorter. */
bool srv_mapped_is_hurt(const srv_mapped *m);

#endif
