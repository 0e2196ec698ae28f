/* Decodes and encodes bodies in the content codings gzip and deflate, by zlib. negotiate.h decides
 * which coding a reply gets. */
#ifndef SRV_CODING_H
#define SRV_CODING_H

#include "http/exchange.h"

/* Decodes the body of the request. The decoded body may have at most max_body_bytes bytes and at
 * most max_inflate_ratio times the size of the compressed one. A gzip body may have several
 * members, but no bytes after the last one. Also sets x->head.encoding to NULL, so that the body is
 * not decoded again if the handler runs a second time. false: a problem is set. */
bool srv_coding_decode(srv_exchange *x);
/* Encodes the body of the reply if the request has an Accept-Encoding header and all of these
 * conditions hold. Otherwise, and if memory runs out, the reply stays unchanged.
 *
 *   The client accepts gzip or deflate.
 *   The body is text or a heatmap tile, which are likely to shrink, and is one block of memory.
 *   The body has at least 1 KiB, below which encoding saves nothing, and at most `most` bytes.
 *   Encoding saves at least an eighth.
 *
 * If the reply has an encoded form already (srv_reply.gzip, brotli), a client that accepts this
 * form gets it, whatever `most` is. */
void srv_coding_encode(srv_exchange *x, size_t most);

#endif
