/* How many bytes of stored runs each owner has, so that who has most gives way first: nobody loses
 * a run to another who already has more (max-min fairness). The caller's lock. */
#ifndef SRV_RUNS_SHARES_H
#define SRV_RUNS_SHARES_H

#include <stddef.h>

#include "config/owner.h"

enum { SRV_SHARES = 2048 }; /* owners that are told apart; those beyond count as the first one */

typedef struct srv_shares {
    struct {
        srv_owner owner;
        size_t bytes;
    } list[SRV_SHARES];
    size_t count;
} srv_shares;

void srv_shares_add(srv_shares *s, srv_owner owner, size_t bytes);
void srv_shares_take(srv_shares *s, srv_owner owner, size_t bytes); /* what was added */
/* Who has most; 0 when nobody has anything. */
srv_owner srv_shares_heaviest(const srv_shares *s);

#endif
