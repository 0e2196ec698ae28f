/* What a training run takes, from its wishes alone. */
#ifndef SRV_TRAIN_COST_H
#define SRV_TRAIN_COST_H

#include "jobs/train_wishes.h"

typedef struct srv_train_cost {
    size_t bytes; /* at most, on one thread: model, moments, data, passes, files on their way */
} srv_train_cost;

/* Are the wishes such as a run can be made of? Errors: ATTN_EVALUE, ATTN_EARG, ATTN_ELIMIT,
 * err->where the wish; ATTN_ENOMEM. */
attn_status srv_train_check(const srv_train_wishes *wishes, srv_train_cost *cost, attn_error *err);

#endif
