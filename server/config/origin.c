/* Checks texts of Origin headers. CORS compares whole texts, so an entry of cors_origins that no
 * browser sends would never match. The settings refuse such an entry. */
#include "config/origin.h"

#include <stdlib.h>
#include <string.h>

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

/* Returns a pointer behind the host that begins at p: a name, an IPv4 address or an IPv6 address in
 * brackets. NULL: there is no host. */
static const char *skip_host(const char *p) {
    bool ipv6 = *p == '[';
    p += ipv6;
    size_t n = strspn(p, ipv6 ? "abcdef:." DIGITS : LOWER DIGITS "-._");
    if (!n || (ipv6 && p[n] != ']'))
        return NULL;
    return p + n + ipv6;
}

/* Returns whether the text is a port number, 1 … 65535, that is not the default of the scheme. */
static bool is_port(const char *p, const char *scheme, size_t scheme_size) {
    size_t n = strspn(p, DIGITS);
    if (!n || n > 5 || p[n] || *p == '0' || atoi(p) > 65535)
        return false;
    bool http = scheme_size == 4 && !memcmp(scheme, "http", 4);
    bool https = scheme_size == 5 && !memcmp(scheme, "https", 5);
    return !(http && atoi(p) == 80) && !(https && atoi(p) == 443);
}

bool srv_origin_is_possible(const char *text) {
    size_t scheme = strspn(text, LOWER DIGITS "+-.");
    if (!strcmp(text, "null"))
        return true;
    if (!scheme || !strchr(LOWER, *text) || strncmp(text + scheme, "://", 3))
        return false;
    const char *p = skip_host(text + scheme + 3);
    return p && (!*p || (*p == ':' && is_port(p + 1, text, scheme)));
}

bool srv_origin_is_host(const char *text) {
    if (!strcmp(text, "*"))
        return true;
    const char *p = skip_host(text);
    return p && (!*p || (*p == ':' && is_port(p + 1, "", 0)));
}
