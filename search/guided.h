/* What guided knows and believes in the present visit; for its rules. */
#ifndef GUIDED_H
#define GUIDED_H

#include "history.h"
#include "rules.h"

struct guided {
    struct gaussian gp;
    struct history history;
    bool alone;              /* the present visit does not believe the others */
    struct belief base;      /* of the present visit, without its own samples */
    struct outlook outlook;  /* with them */
    struct belief elsewhere; /* of the capacity last asked for */
    double elsewhere_log_c;
    bool elsewhere_known;

    double squares, first_sights;    /* standardised residuals of arms when first sampled */
    bool cold;                       /* no visit nearby looked at every family */
    bool flagged[SEARCH_ARMS_MAX];   /* was much slower than predicted in this visit */
    double promise[SEARCH_ARMS_MAX]; /* of a flagged arm: what was predicted */
    double unlike[SEARCH_ARMS_MAX]; /* variance of an arm that is nothing like what was predicted */
    int pending, last;              /* -1 = none */
    bool tried[SEARCH_ARMS_MAX];    /* in any visit */
    struct pick pick;               /* what comes next */
    struct observation scratch[GAUSSIAN_OBSERVATIONS_MAX];
    struct told told[GAUSSIAN_TOLD_MAX];
};

/* What the rules see: every arm against the incumbent, the best of those sampled here. */
struct view {
    const struct search *search;
    const struct guided *g;
    int masked;                   /* an arm left out until it is sampled again; -1 = none */
    int incumbent, expected_best; /* of those sampled here; of all; -1 = none */
    double difference[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX]; /* of log time, arm - incumbent */
};

/* Takes a new outlook, without the samples of `masked`. */
struct view view_of(const struct search *search, struct guided *g, int masked);

#endif
