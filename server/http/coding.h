/* Decodes and encodes gzip and deflate. This is the only user of zlib. negotiate.h chooses the
 * coding. */
#ifndef SRV_CODING_H
#define SRV_CODING_H

#include "http/exchange.h"

/* Replaces the body by its decoded form, within max_body_bytes and max_inflate_ratio. false: the
 * problem is set. gzip may have several members; nothing may follow the last one. */
bool srv_coding_decode(srv_exchange *x);
/* Encodes the reply if it is text of 1 KiB or more in one piece and the client accepts a coding
 * (Accept-Encoding is there). If memory runs out the reply stays unchanged. */
void srv_coding_encode(srv_exchange *x, size_t most);

#endif
