/* Bodies on their way in. */
#ifndef SRV_UPLOAD_H
#define SRV_UPLOAD_H

#include "http/exchange.h"

/* What a refused request may still send before its connection is closed rather than kept. */
#define SRV_SWALLOW_BYTES (256 * 1024)
/* And after its reply was sent past the library, before the socket is closed. */
#define SRV_LINGER_BYTES (16 * 1024 * 1024)

/* Before the body: it is coming. */
void srv_upload_begin(srv_exchange *x);
/* Free what is there of it. On the HTTP thread, or once it is complete. */
void srv_upload_drop(srv_exchange *x);
/* How far into its block a body goes, ATTN_ALIGN - 1 at most, for the tensors behind its header to
 * be aligned; `data`: its beginning. */
size_t srv_upload_shift(const srv_exchange *x, const char *data, size_t size);
/* x is refused in the middle of its header or body: its reply goes out past the library. When the
 * client still sends, that is read and dropped for a while, or it would not see the reply for the
 * reset. Nothing happens when the link is cut already. */
void srv_upload_cut(srv_exchange *x);
/* A piece of the body. false: close the connection. */
bool srv_upload_take(srv_exchange *x, const char *data, size_t size);

#endif
