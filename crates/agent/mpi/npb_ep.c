// SPDX-License-Identifier: MIT OR Apache-2.0
/* EP, "embarrassingly parallel": pairs of Gaussian deviates, their sums and their counts in square annuli
 * (section 2.2.1). Ranks talk only to add up in the end.
 */
#include "npb.h"

#include <math.h>

#define SEED 271828183ULL
#define ANNULI 10

/* The logarithm of the number of pairs, and the published results. Counts of annuli that are left out are 0. */
static const struct {
	int log_pairs;
	double sum_x, sum_y;
	double counts[ANNULI];
} classes[] = {
	{24, -3.247834652034740e3, -6.958407078382297e3, {6140517, 5865300, 1100361, 68546, 1648, 17}},
	{25, -2.863319731645753e3, -6.320053679109499e3, {12281576, 11729692, 2202726, 137368, 3371, 36}},
	{28, -4.295875165629892e3, -1.580732573678431e4, {98257395, 93827014, 17611549, 1110028, 26536, 245}},
};

struct sums {
	double x, y;
	double counts[ANNULI];
};

/* Adds up `pairs` pairs, of which the first is the one after `state`. */
static void add_pairs(uint64_t state, uint64_t pairs, struct sums *sums)
{
	for (uint64_t pair = 0; pair < pairs; pair++) {
		double x = 2 * npb_random(&state) - 1;
		double y = 2 * npb_random(&state) - 1;
		double t = x * x + y * y;

		if (t <= 1) {
			double factor = sqrt(-2 * log(t) / t);

			x *= factor;
			y *= factor;
			sums->counts[(int)fmax(fabs(x), fabs(y))]++;
			sums->x += x;
			sums->y += y;
		}
	}
}

void npb_ep(struct npb_run *run)
{
	int class = npb_class_index(run);
	uint64_t pairs = (1ULL << classes[class].log_pairs) / (uint64_t)run->ranks;
	struct sums own = {0}, all;
	double begin = npb_begin();

	add_pairs(npb_random_after(SEED, 2 * pairs * (uint64_t)run->rank), pairs, &own);
	MPI_Allreduce(&own, &all, sizeof(own) / sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	run->seconds = npb_elapsed(begin);
	run->mops = ldexp(1, classes[class].log_pairs + 1) / run->seconds / 1e6;

	npb_check(run, "sum-x", all.x, classes[class].sum_x, 1e-8);
	npb_check(run, "sum-y", all.y, classes[class].sum_y, 1e-8);
	for (int at = 0; at < ANNULI; at++)
		npb_check(run, "count", all.counts[at], classes[class].counts[at], 0);
}
