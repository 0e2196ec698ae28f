/* Web origins as browsers write them in the Origin header (RFC 6454, section 6.2). */
#ifndef SRV_ORIGIN_H
#define SRV_ORIGIN_H

#include <stdbool.h>

/* Returns whether a browser could send the text as Origin. It sends "null", scheme://host or
 * scheme://host:port, in lower case, without a path and without the default port of the scheme. */
bool srv_origin_is_possible(const char *text);

/* Returns whether the text is a valid entry of the setting `hosts`: "*", or a name or address with
 * or without a port. An IPv6 address is written in brackets. */
bool srv_origin_is_host(const char *text);

#endif
