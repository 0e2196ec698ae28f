/* A table with open addressing. An account whose client waits for nothing may be given to another
 * one, the longest unused first, among those that a client may have. */
#include "load/accounts.h"

enum { PROBES = 16 };

static bool is_idle(const srv_account *a) {
    return !a->waiting && !a->running;
}

/* The one to give away: a free one, else an idle one, else the first. */
static srv_account *worse(srv_account *a, srv_account *b) {
    if (!a->taken || !b->taken)
        return a->taken ? b : a;
    if (is_idle(a) != is_idle(b))
        return is_idle(a) ? a : b;
    return is_idle(b) && b->used_ns < a->used_ns ? b : a;
}

srv_account *srv_account_of(srv_accounts *a, uint64_t client) {
    const size_t start = (size_t)((client * 0x9e3779b97f4a7c15u) >> 32);
    srv_account *given = &a->list[start % SRV_ACCOUNTS];
    for (size_t i = 0; i < PROBES; i++) {
        srv_account *at = &a->list[(start + i) % SRV_ACCOUNTS];
        if (at->taken && at->client == client)
            return at;
        given = worse(given, at);
    }
    if (!given->taken || is_idle(given))
        *given = (srv_account){.client = client, .taken = true};
    return given;
}

void srv_account_charge(srv_account *account, int64_t ns, int64_t now_ns) {
    account->credit_ns -= ns;
    account->used_ns = now_ns;
    if (account->credit_ns < -(int64_t)SRV_DEBT_NS)
        account->credit_ns = -(int64_t)SRV_DEBT_NS;
    if (account->credit_ns > SRV_QUANTUM_NS)
        account->credit_ns = SRV_QUANTUM_NS;
}

void srv_account_come_back(srv_account *account, int64_t now_ns) {
    const int64_t quiet = now_ns - account->used_ns;
    if (is_idle(account) && account->credit_ns < 0)
        account->credit_ns = quiet < -account->credit_ns ? account->credit_ns + quiet : 0;
}
