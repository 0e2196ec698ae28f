/* Bodies and replies in gzip and deflate: the one user of zlib. negotiate.h chooses the coding. */
#ifndef SRV_CODING_H
#define SRV_CODING_H

#include "http/exchange.h"

/* Replace the body by what it decodes to, within max_body_bytes and max_inflate_ratio. false: the
 * problem is set. gzip may have several members; nothing may follow the last. */
bool srv_coding_decode(srv_exchange *x);
/* Encode the reply when that is worth it: text of 1 KiB or more, in one piece, for a client that
 * takes it (Accept-Encoding is there). Without memory for it the reply stays as it is. */
void srv_coding_encode(srv_exchange *x, size_t most);

#endif
