/* Addresses are stored as 16 bytes, IPv4 as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2). Therefore one
 * comparison of prefixes serves both IPv4 and IPv6. */
#include "config/client.h"

#include <arpa/inet.h>
#include <attn/rng.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number/hash.h"

#define UNIX "unix"

enum {
    BYTES = 16,     /* size of an address in bytes */
    BITS = 128,     /* size of an address in bits */
    FOUR_AT = 12,   /* byte at which an IPv4 address begins */
    FOUR_BITS = 96, /* number of bits before an IPv4 address */
    ENTRY = 80,     /* buffer size of one entry of X-Forwarded-For or of a network's address */
};

typedef struct network {
    unsigned char bytes[BYTES];
    size_t bits; /* length of the prefix that an address must share; 0 … BITS */
} network;

static bool read_address(const char *text, unsigned char bytes[BYTES]) {
    static const unsigned char mapped[FOUR_AT] = {[10] = 0xff, [11] = 0xff};
    memcpy(bytes, mapped, sizeof mapped);
    return inet_pton(AF_INET, text, bytes + FOUR_AT) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

static bool is_four(const unsigned char bytes[BYTES]) {
    return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)bytes);
}

static void write_address(const unsigned char bytes[BYTES], char text[SRV_CLIENT_TEXT]) {
    const bool four = is_four(bytes);
    inet_ntop(four ? AF_INET : AF_INET6, bytes + (four ? FOUR_AT : 0), text, SRV_CLIENT_TEXT);
}

/* Reads a network such as "10.0.0.0/8", or a single address such as "::1". */
static bool read_network(const char *text, network *out) {
    char address[ENTRY];
    const char *slash = strchr(text, '/');
    const size_t n = slash ? (size_t)(slash - text) : strlen(text);
    if (n >= sizeof address)
        return false;
    memcpy(address, text, n);
    address[n] = 0;
    out->bits = BITS;
    if (!read_address(address, out->bytes))
        return false;
    if (!slash)
        return true;
    const size_t digits = strspn(slash + 1, "0123456789");
    const size_t before = strchr(address, ':') ? 0 : FOUR_BITS;
    if (!digits || digits > 3 || slash[1 + digits])
        return false;
    out->bits = before + (size_t)atoi(slash + 1);
    return out->bits <= BITS;
}

static bool is_within(const unsigned char bytes[BYTES], const network *net) {
    const size_t whole = net->bits / 8, rest = net->bits % 8;
    return !memcmp(bytes, net->bytes, whole) &&
           (!rest || !((bytes[whole] ^ net->bytes[whole]) >> (8 - rest)));
}

bool srv_client_is_network(const char *text) {
    network net;
    return !strcmp(text, UNIX) || read_network(text, &net);
}

bool srv_client_is_proxy(const srv_texts *proxies, const char *address) {
    unsigned char bytes[BYTES];
    const bool is_address = read_address(address, bytes);
    for (size_t i = 0; i < proxies->count; i++) {
        network net;
        if (is_address ? read_network(proxies->items[i], &net) && is_within(bytes, &net)
                       : !strcmp(proxies->items[i], address))
            return true;
    }
    return false;
}

bool srv_client_is_local(const char *address) {
    unsigned char bytes[BYTES];
    if (!read_address(address, bytes))
        return !strcmp(address, UNIX);
    return is_four(bytes) ? bytes[FOUR_AT] == 127
                          : IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)bytes);
}

/* Reads one entry of X-Forwarded-For, `size` bytes: "192.0.2.1", "2001:db8::1", or, as some proxies
 * write, "192.0.2.1:80", "[2001:db8::1]" or "[2001:db8::1]:80". false: it is not an address. */
static bool read_entry(const char *text, size_t size, unsigned char bytes[BYTES]) {
    char entry[ENTRY];
    while (size && (*text == ' ' || *text == '\t'))
        text++, size--;
    while (size && (text[size - 1] == ' ' || text[size - 1] == '\t'))
        size--;
    if (size >= sizeof entry)
        return false;
    memcpy(entry, text, size);
    entry[size] = 0;
    char *address = entry, *colon = strchr(entry, ':');
    if (*entry == '[') {
        address = entry + 1;
        address[strcspn(address, "]")] = 0;
    } else if (colon && colon == strrchr(entry, ':')) {
        *colon = 0;
    }
    return read_address(address, bytes);
}

/* Searches one value of X-Forwarded-For from right to left, and writes each address that it reads
 * to `address`. true: all entries are proxies, so the caller must search the value to the left,
 * too. false: the search is over. */
static bool search_value(const srv_texts *proxies, const char *value,
                         char address[SRV_CLIENT_TEXT]) {
    const char *end = value + strlen(value);
    for (;;) {
        const char *from = end;
        unsigned char bytes[BYTES];
        while (from > value && from[-1] != ',')
            from--;
        if (!read_entry(from, (size_t)(end - from), bytes))
            return false;
        write_address(bytes, address);
        if (!srv_client_is_proxy(proxies, address))
            return false;
        if (from == value)
            return true;
        end = from - 1;
    }
}

void srv_client_behind(const srv_texts *proxies, const char *const *values, size_t count,
                       char address[SRV_CLIENT_TEXT]) {
    while (count && search_value(proxies, values[count - 1], address))
        count--;
}

void srv_client_address(const struct sockaddr *peer, char address[SRV_CLIENT_TEXT]) {
    if (peer && peer->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)peer)->sin_addr, address, SRV_CLIENT_TEXT);
    else if (peer && peer->sa_family == AF_INET6)
        write_address(((const struct sockaddr_in6 *)peer)->sin6_addr.s6_addr, address);
    else
        memcpy(address, UNIX, sizeof UNIX);
}

srv_owner srv_client_number(const char *address) {
    unsigned char bytes[BYTES];
    uint64_t prefix, host;
    if (!read_address(address, bytes))
        return srv_owner_of(address);
    memcpy(&prefix, bytes, sizeof prefix);
    memcpy(&host, bytes + sizeof prefix, sizeof host);
    return attn_rng_bits(prefix, is_four(bytes) ? host : 0);
}

srv_owner srv_owner_of(const char *name) {
    const srv_owner hash = name ? attn_hash(ATTN_HASH_START, name, strlen(name)) : 0;
    return name && !hash ? 1 : hash;
}
