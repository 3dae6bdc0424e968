// SPDX-License-Identifier: MIT OR Apache-2.0
/* Kernels of the NAS Parallel Benchmarks, written from their specification: D. Bailey and others, "The NAS Parallel
 * Benchmarks", RNR-94-007, NASA Ames, 1994. Sections that comments name are those of that report.
 *
 * NPB is also the name of NASA's own programs. These are others: the specified problems, verified against the published
 * values. LU, SP and BT are left out: they are applications rather than kernels, and SP and BT want square numbers of
 * ranks.
 */
#ifndef LATLAB_NPB_H
#define LATLAB_NPB_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* The multiplier a = 5^13 and the seed of most kernels (section 2.3). */
#define NPB_MULTIPLIER 1220703125ULL
#define NPB_SEED 314159265ULL
/* Ranks per axis of a grid are 1 or 2. */
#define NPB_MAX_RANKS 8

/* A kernel's run of one class, and what became of it. */
struct npb_run {
	const char *kernel;
	char class;
	int rank;
	int ranks;
	double seconds;
	double mops;
	int failed_checks;
};

/* The next of the pseudorandom numbers in (0, 1): x = a x mod 2^46, which integers of 64 bits do exactly
 * (section 2.3). */
static inline double npb_random(uint64_t *x)
{
	*x = (*x * NPB_MULTIPLIER) & ((1ULL << 46) - 1);
	return (double)*x * 0x1p-46;
}

/* The state after `steps` numbers from `seed`: each rank begins amidst the sequence (section 2.3). */
uint64_t npb_random_after(uint64_t seed, uint64_t steps);

/* Zeroed memory; ends the job where there is none. */
void *npb_alloc(size_t count, size_t bytes);

/* A value beside the published one: a line of output, and a failure if they differ by more than the tolerance, which is
 * relative. */
void npb_check(struct npb_run *run, const char *name, double found, double published, double tolerance);

/* The place of a class in tables of S, W and A. */
int npb_class_index(const struct npb_run *run);

/* All ranks at the same point, at the time that is returned. */
double npb_begin(void);

/* The time since then of the slowest rank. */
double npb_elapsed(double begin);

void npb_ep(struct npb_run *run);
void npb_is(struct npb_run *run);
void npb_cg(struct npb_run *run);
void npb_mg(struct npb_run *run);
void npb_ft(struct npb_run *run);

#endif
