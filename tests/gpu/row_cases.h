/* Tests of kernels on rows that differ: copies by a table, owners of rows, products of each
 * expert's own.  And how wide rows are. */
#ifndef ROW_CASES_H
#define ROW_CASES_H

#include "cuda_cases.h"
#include "host.h"

enum { WIDEST = 2600 };

/* Mostly small, at times wide enough for several pieces of a row; 8 divides half of them, and all
 * of what is all wide. */
static uint64_t some_width(void)
{
    uint64_t width = below(10) ? 1 + below(70) : 1 + below(WIDEST);

    return all_wide || below(2) ? (width + 7) / 8 * 8 : width;
}

/* Random blocks, some of no rows, in an order of their own on each side; the rows of all. */
static uint64_t some_blocks(struct row_block *blocks, uint64_t count, uint64_t terms)
{
    uint64_t to = 0, from = 0, length[16];

    for (uint64_t i = 0; i < count; i++) {
        length[i] = below(3) ? below(5) : 0;
        blocks[i] = (struct row_block){ to, 0, to, length[i] + below(2) };
        to += length[i];
    }
    for (uint64_t n = 0; n < count; n++) {
        uint64_t i = (n * 7 + 3) % count; /* each once where 7 does not divide the count */

        blocks[i].from = from;
        from += terms * blocks[i].step;
    }
    return to;
}

static void move_rows_follows_its_table(void)
{
    for (int round = 0; round < 100 * rounds; round++) {
        uint32_t from_type = below(3), to_type = below(2) ? from_type : below(3);
        uint64_t count = 1 + below(6), terms = 1 + below(3), width = some_width(), all = 0;
        struct row_block blocks[16];
        uint64_t rows = some_blocks(blocks, count, terms);
        float *from, *want = malloc((rows * width + 1) * sizeof(*want));
        struct move_rows args = { .from_type = from_type,
                                  .to_type = to_type,
                                  .width = width,
                                  .rows = rows,
                                  .terms = terms,
                                  .count = count };
        struct move_rows host = args;

        for (uint64_t i = 0; i < count; i++)
            all += terms * blocks[i].step;
        args.blocks = on_subject(blocks, count * sizeof(*blocks), 8);
        args.from = typed(from_type, all * width, 1, &from);
        args.to = room(to_type, rows * width);
        host.from_type = host.to_type = MOE_F32;
        host.blocks = blocks;
        host.from = from;
        host.to = want;
        host_move_rows(&host);
        RUN(move_rows, &args);
        check_values(to_type, args.to, want, rows * width, (double)(terms - 1), 1);
        free_buffers();
        free(from), free(want);
    }
}

/* Where the rows of each of `count` begin, some of which have none. */
static uint64_t some_owners(uint64_t *first, uint64_t count, uint32_t most)
{
    first[0] = 0;
    for (uint64_t i = 0; i < count; i++)
        first[i + 1] = first[i] + (below(3) ? below(most) : 0);
    return first[count];
}

static void rows_that_differ_get_the_biases_of_their_owners(void)
{
    for (int round = 0; round < 60 * rounds; round++) {
        uint32_t dtype = below(3), kind = below(3);
        uint64_t batch = 1 + below(9), width = some_width(), first[16];
        uint64_t rows = some_owners(first, batch, below(8) ? 9 : 300), n;
        bool keep = below(2);
        float *pre, *up, *bias, *sum, *post;
        struct activate act = { .dtype = dtype, .kind = kind, .batch = batch, .rows = rows };
        struct add_bias add = { .dtype = dtype, .batch = batch, .rows = rows };
        struct sum_rows sums = { .dtype = dtype, .keep = keep, .batch = batch, .rows = rows };
        const uint64_t *there;

        width = rows > 100 && width > 100 ? 100 : width;
        n = rows * width;
        post = floats(n);
        act.width = add.width = sums.width = add.bias_stride = sums.to_stride = width;
        there = on_subject(first, (batch + 1) * sizeof(*first), 8);
        act.first = add.first = sums.first = there;
        act.bias = add.bias = typed(dtype, batch * width, 1, &bias);
        act.pre = typed(dtype, n, 1, &pre);
        act.up = typed(dtype, n, 1, &up);
        act.post = room(dtype, n);
        add.to = act.pre;
        sums.from = act.up;
        sums.to = typed(dtype, batch * width, 1, &sum);
        host_sum_rows(
            &(struct sum_rows){ MOE_F32, keep, batch, rows, width, width, up, sum, first });
        RUN(sum_rows, &sums);
        check_values(dtype, sums.to, sum, batch * width, (double)rows / 4 + 8, 2);
        host_activate(
            &(struct activate){ MOE_F32, kind, batch, rows, width, bias, pre, up, post, first });
        RUN(activate, &act);
        check_values(dtype, act.post, post, n, 32, 0.05);
        RUN(add_bias, &add); /* pre is that sum, too */
        check_values(dtype, add.to, pre, n, 0, 0);
        free_buffers();
        free(pre), free(up), free(bias), free(sum), free(post);
    }
}

static void gemm_rows_multiplies_each_experts_own_rows(void)
{
    for (int round = 0; round < 100 * rounds && subject_has(KERNEL_gemm_rows); round++) {
        uint32_t dtype = below(3), experts = below(20) ? 1 + below(12) : 150;
        uint64_t n = 1 + below(40), k = 1 + below(40), first[151];
        uint64_t rows = some_owners(first, experts, 30), matrices = experts * n * k;
        struct gemm_rows args = { .dtype = dtype,
                                  .sums = below(2),
                                  .transpose_b = below(2),
                                  .keep = below(2),
                                  .experts = experts,
                                  .n = n,
                                  .k = k,
                                  .first = first };
        struct gemm_rows host;
        uint64_t of_b, of_c;
        float *a, *b, *c;

        args.transpose_b &= !args.sums;
        of_b = args.sums ? rows * n : matrices;
        of_c = args.sums ? matrices : rows * n;
        host = args;
        args.a = typed(dtype, rows * k, 1, &a);
        args.b = typed(dtype, of_b, 1, &b);
        args.c = typed(dtype, of_c, 1, &c);
        host.dtype = MOE_F32;
        host.a = a;
        host.b = b;
        host.c = c;
        host_gemm_rows(&host);
        RUN(gemm_rows, &args);
        check_values(dtype, args.c, c, of_c, 2 * 40, 1);
        free_buffers();
        free(a), free(b), free(c);
    }
}

#endif
