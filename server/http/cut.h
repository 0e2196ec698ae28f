/* Ending an exchange that libmicrohttpd 0.9.75 gives no way to answer: a request that does not
 * arrive, a body that is refused when part of it is here. The reply is written to the socket past
 * the library, and the connection is shut down: at once when the client is silent; when it still
 * sends, after a while in which that is read and dropped, or it would not see the reply for the
 * reset.
 *
 * A link's stage says who may write: the HTTP thread claims it before it answers, whoever cuts it
 * claims it before that; the first wins. */
#ifndef SRV_CUT_H
#define SRV_CUT_H

#include "http/exchange.h"

/* For the HTTP thread, before it answers: true when nobody has cut the link. */
bool srv_link_claim(srv_link *link);
/* For the HTTP thread, when the reply has gone out: bytes of the client come next. */
void srv_link_read(srv_link *link);
bool srv_link_is_cut(const srv_link *link);

/* The request has not come in time: 408. Any thread that holds the daemon's lock. */
void srv_cut_slow(srv_link *link);
/* x is refused in the middle of its header or body: its reply. Nothing happens when it is cut
 * already. On the HTTP thread. */
void srv_cut_body(srv_exchange *x);
/* More of the body of x, which is cut, has come: its client is not silent. On the HTTP thread. */
void srv_cut_linger(srv_exchange *x);

#endif
