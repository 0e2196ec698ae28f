/* The lines between chunks (RFC 9112, 7.1), as far as they can be seen: libmicrohttpd 0.9.75 takes
 * a bare LF for the end of one, which other servers read on over, so that two of them in a row may
 * disagree on where a request ends. A line that came in without the data behind it is gone when the
 * data comes, and the last one is never seen; so a connection also ends behind a chunked body, and
 * nothing that follows on it is read as a request. */
#ifndef SRV_CHUNKS_H
#define SRV_CHUNKS_H

#include <stdbool.h>

/* Does the line before `data`, if it is there, end in CR LF, and the data before it as well? `from`
 * is where the library reads bodies into: bytes from there to `data` came in before it. */
bool srv_chunk_line_is_clean(const char *from, const char *data);

#endif
