/* Decodes and encodes gzip and deflate, as the only part of the service that uses zlib. Which
 * coding a reply gets is decided by negotiate.h. */
#ifndef SRV_CODING_H
#define SRV_CODING_H

#include "http/exchange.h"

/* Replaces the body by its decoded form, within the settings max_body_bytes and max_inflate_ratio.
 * A gzip body may have several members, but no bytes after the last one. Returns false with a
 * problem set on failure. */
bool srv_coding_decode(srv_exchange *x);
/* Encodes the reply if the client accepts gzip or deflate and the reply is text or a tile, has
 * between 1 KiB and `most` bytes, lies in one buffer and shrinks by at least an eighth. Otherwise,
 * and if memory runs out, the reply stays unchanged. The request has an Accept-Encoding header. */
void srv_coding_encode(srv_exchange *x, size_t most);

#endif
