/* Cross-origin requests from browsers: off unless origins are configured, then exact matches only.
 */
#ifndef SRV_CORS_H
#define SRV_CORS_H

#include "http/exchange.h"

/* Add what the Fetch standard asks for to the reply of x; false: out of memory. */
bool srv_cors(srv_exchange *x, struct MHD_Response *response);

#endif
