/* A pair is a certificate chain with its private key. When a new pair is loaded, a handshake may
 * still use the old one. Therefore old pairs stay in memory until the service ends. Loading
 * unchanged files again adds no pair. */
#include "http/tls.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attn/pool.h"
#include "config/secret.h"
#include "http/exchange.h"
#include "system/host.h"

#define PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-SHA1"

enum { CHAIN_MOST = 16 }; /* largest number of certificates in a chain */

typedef struct pair {
    struct pair *older; /* the pair that was loaded before this one */
    gnutls_pcert_st chain[CHAIN_MOST];
    unsigned length; /* number of certificates in `chain` */
    gnutls_privkey_t key;
    srv_digest of; /* digest of both files, to recognise unchanged files */
    time_t until;  /* end of the certificate's validity, in seconds since 1970 */
} pair;

struct srv_tls {
    srv_digest salt;     /* key of the digests */
    pair *_Atomic shown; /* the pair for new handshakes, the newest one */
};

srv_tls *srv_tls_new(void) {
    srv_tls *tls = calloc(1, sizeof *tls);
    if (tls && !srv_secret_salt(&tls->salt)) {
        free(tls);
        tls = NULL;
    }
    return tls;
}

static void free_pair(pair *p) {
    if (!p)
        return;
    for (unsigned i = 0; i < p->length; i++)
        gnutls_pcert_deinit(&p->chain[i]);
    if (p->key)
        gnutls_privkey_deinit(p->key);
    free(p);
}

void srv_tls_free(srv_tls *tls) {
    if (!tls)
        return;
    for (pair *p = atomic_load(&tls->shown), *older; p; p = older) {
        older = p->older;
        free_pair(p);
    }
    free(tls);
}

static gnutls_datum_t datum(const char *text, size_t size) {
    return (gnutls_datum_t){(unsigned char *)text, (unsigned)size};
}

static bool out_of_memory(srv_config_error *err) {
    return srv_config_short(err, "read the certificate and its key");
}

static bool refuse_file(srv_config_error *err, const char *setting, const char *file,
                        const char *must, int failed) {
    return failed == GNUTLS_E_MEMORY_ERROR
               ? out_of_memory(err)
               : srv_config_refuse(err, "%s: %.200s must hold %s: %s", setting, file, must,
                                   gnutls_strerror(failed));
}

static bool take_chain(pair *p, const gnutls_datum_t *pem, const char *file,
                       srv_config_error *err) {
    unsigned length = CHAIN_MOST;
    gnutls_x509_crt_t leaf = NULL;
    int failed = gnutls_pcert_list_import_x509_raw(p->chain, &length, pem, GNUTLS_X509_FMT_PEM,
                                                   GNUTLS_X509_CRT_LIST_SORT);
    if (failed == GNUTLS_E_SHORT_MEMORY_BUFFER)
        return srv_config_refuse(err, "tls_cert: %.200s holds more than %d certificates", file,
                                 CHAIN_MOST);
    if (failed)
        return refuse_file(err, "tls_cert", file, "a certificate and its chain in PEM", failed);
    p->length = length;
    if (!gnutls_pcert_export_x509(&p->chain[0], &leaf)) {
        p->until = gnutls_x509_crt_get_expiration_time(leaf);
        gnutls_x509_crt_deinit(leaf);
    }
    return true;
}

static bool take_key(pair *p, const gnutls_datum_t *pem, const char *file, srv_config_error *err) {
    int failed = gnutls_privkey_init(&p->key);
    if (!failed)
        failed = gnutls_privkey_import_x509_raw(p->key, pem, GNUTLS_X509_FMT_PEM, NULL, 0);
    return !failed ||
           refuse_file(err, "tls_key", file, "a private key in PEM, without a password", failed);
}

/* Checks that certificate and key match, by adding both to GnuTLS credentials. */
static bool check_match(const gnutls_datum_t *cert, const gnutls_datum_t *key,
                        const char *cert_file, const char *key_file, srv_config_error *err) {
    gnutls_certificate_credentials_t both;
    int failed = gnutls_certificate_allocate_credentials(&both);
    if (failed)
        return out_of_memory(err);
    failed = gnutls_certificate_set_x509_key_mem(both, cert, key, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(both);
    if (failed == GNUTLS_E_MEMORY_ERROR)
        return out_of_memory(err);
    return failed >= 0 ||
           srv_config_refuse(err, "tls_key: %.150s is not the key of the certificate in %.150s: %s",
                             key_file, cert_file, gnutls_strerror(failed));
}

/* Computes one digest of both files. */
static bool digest_files(const srv_tls *tls, const char *cert, size_t cert_size, const char *key,
                         size_t key_size, srv_digest *out) {
    srv_digest each[2];
    return srv_secret_digest(&tls->salt, cert, cert_size, &each[0]) &&
           srv_secret_digest(&tls->salt, key, key_size, &each[1]) &&
           srv_secret_digest(&tls->salt, (const char *)each, sizeof each, out);
}

bool srv_tls_load(srv_tls *tls, const char *cert_file, const char *key_file,
                  srv_config_error *err) {
    char *cert = NULL, *key = NULL;
    size_t cert_size = 0, key_size = 0;
    pair *shown = atomic_load(&tls->shown), *fresh = NULL;
    bool ok = false;
    int failed = srv_read_file(cert_file, &cert, &cert_size);
    if (failed == ENOMEM)
        out_of_memory(err);
    else if (failed)
        srv_config_refuse(err, "tls_cert: cannot read %.200s: %s", cert_file, strerror(failed));
    if (failed)
        goto out;
    if (!srv_secret_read("tls_key", key_file, &key, &key_size, err))
        goto out;
    fresh = calloc(1, sizeof *fresh);
    if (!fresh || !digest_files(tls, cert, cert_size, key, key_size, &fresh->of)) {
        out_of_memory(err);
        goto out;
    }
    if (shown && srv_secret_equal(&shown->of, &fresh->of)) {
        ok = true;
        goto out;
    }
    gnutls_datum_t cert_pem = datum(cert, cert_size), key_pem = datum(key, key_size);
    ok = take_chain(fresh, &cert_pem, cert_file, err) && take_key(fresh, &key_pem, key_file, err) &&
         check_match(&cert_pem, &key_pem, cert_file, key_file, err);
    if (ok) {
        fresh->older = shown;
        atomic_store(&tls->shown, fresh);
        fresh = NULL;
    }
out:
    free_pair(fresh);
    srv_secret_free(key, key_size);
    free(cert);
    return ok;
}

int64_t srv_tls_until(const srv_tls *tls) {
    return atomic_load(&tls->shown)->until;
}

/* Called by GnuTLS in each handshake: returns the chain and the key to use. */
static int choose(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                  gnutls_pcert_st **chain, unsigned *length, gnutls_ocsp_data_st **ocsp,
                  unsigned *ocsp_length, gnutls_privkey_t *key, unsigned *flags) {
    (void)info;
    /* libmicrohttpd stores its connection as the pointer of the session. */
    const union MHD_ConnectionInfo *found = MHD_get_connection_info(
        gnutls_session_get_ptr(session), MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    const srv_link *link = found ? found->socket_context : NULL;
    if (!link)
        return -1; /* srv_link_open had no memory for the link */
    pair *shown = atomic_load(&link->daemon->app->tls->shown);
    *chain = shown->chain;
    *length = shown->length;
    *key = shown->key;
    *ocsp = NULL;
    *ocsp_length = 0;
    *flags = 0; /* GnuTLS must not free the chain and the key */
    return 0;
}

const struct MHD_OptionItem *srv_tls_options(void) {
    static const struct MHD_OptionItem options[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(uintptr_t)choose},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    return options;
}

/* Performs the handshake, sends `ask` and receives the answer, as srv_tls_ask describes. */
static size_t talk(gnutls_session_t session, const char *ask, size_t size, char *answer,
                   size_t room, int64_t by_ns) {
    int done;
    while ((done = gnutls_handshake(session)) < 0)
        if (done == GNUTLS_E_AGAIN || gnutls_error_is_fatal(done) || attn_now_ns() >= by_ns)
            return 0; /* GNUTLS_E_AGAIN: the timeout of the socket has passed */
    if (gnutls_record_send(session, ask, size) != (ssize_t)size)
        return 0;
    size_t got = 0;
    while (got < room && attn_now_ns() < by_ns) {
        ssize_t n = gnutls_record_recv(session, answer + got, room - got);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

size_t srv_tls_ask(int fd, const char *ask, size_t size, char *answer, size_t room, int64_t by_ns) {
    gnutls_session_t session = NULL;
    gnutls_certificate_credentials_t nothing = NULL;
    size_t got = 0;
    if (gnutls_init(&session, GNUTLS_CLIENT) || gnutls_certificate_allocate_credentials(&nothing) ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, nothing) ||
        gnutls_priority_set_direct(session, PRIORITIES, NULL))
        goto out;
    gnutls_transport_set_int(session, fd);
    got = talk(session, ask, size, answer, room, by_ns);
out:
    if (session)
        gnutls_deinit(session);
    if (nothing)
        gnutls_certificate_free_credentials(nothing);
    return got;
}
