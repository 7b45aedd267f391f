/* One plan at one bucket on its way through the ranks. */
#ifndef ATTEMPT_H
#define ATTEMPT_H

#include "campaign.h"
#include "ledger.h"

/* Needs `bytes` per rank where `memory_limit_bytes` are allowed: never runs. */
int attempt_rule_out(struct campaign *campaign, struct attempt *attempt, int64_t bytes,
                     int64_t memory_limit_bytes);

struct step {
    int64_t ns;  /* 0: it failed; the row says how, and that is no error */
    bool counts; /* false: something held it back, and it is to be taken again */
};

/* One timed step, kept as a sample, and said on the progress line and to `moetune status`. */
int attempt_step(struct campaign *campaign, struct attempt *attempt, enum sample_kind kind,
                 uint32_t round, struct step *out);

#endif
