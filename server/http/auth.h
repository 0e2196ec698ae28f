/* Who may ask what: the access column of the route table and the API keys. */
#ifndef SRV_AUTH_H
#define SRV_AUTH_H

#include "http/exchange.h"

/* Refuse x (x->refused) when its route is not for whoever asks, else keep the key that it came with
 * in x->key. After the router, before the body. */
void srv_auth(srv_exchange *x);
/* The exchange is over: its key counts one request less. */
void srv_auth_end(srv_exchange *x);

#endif
