/* What exploring may cost: a share of the time that training has taken so far. */
#ifndef BUDGET_H
#define BUDGET_H

struct budget {
    double share;
    double run_us;      /* all steps told */
    double spent_us;    /* steps beyond the best known plan's, and our own time */
    double own_us;      /* our own time alone */
    double reserved_us; /* for the step under way */
};

static inline double budget_left_us(const struct budget *p)
{
    return p->share * p->run_us - p->spent_us - p->reserved_us;
}

static inline void budget_own(struct budget *p, double us)
{
    p->own_us += us > 0 ? us : 0;
    p->spent_us += us > 0 ? us : 0;
}

/* What was reserved is given back, and what it did cost is taken. */
static inline void budget_settle(struct budget *p, double cost_us)
{
    p->reserved_us = 0;
    p->spent_us += cost_us > 0 ? cost_us : 0;
}

#endif
