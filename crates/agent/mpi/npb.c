// SPDX-License-Identifier: MIT OR Apache-2.0
/* The program around the kernels: its arguments, the random numbers, the clock and the lines of its output.
 *
 *   latlab-npb CLASS KERNEL...
 *
 * A line for each value that is verified, and one for each kernel:
 *   npb-check KERNEL NAME FOUND PUBLISHED ok|wrong
 *   npb KERNEL class C ranks N seconds T mops M verification successful|failed
 */
#include "npb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	void (*run)(struct npb_run *run);
} kernels[] = {
	{"ep", npb_ep}, {"is", npb_is}, {"cg", npb_cg}, {"mg", npb_mg}, {"ft", npb_ft},
};
#define KERNELS (sizeof(kernels) / sizeof(kernels[0]))

uint64_t npb_random_after(uint64_t seed, uint64_t steps)
{
	uint64_t power = NPB_MULTIPLIER;

	for (; steps != 0; steps >>= 1) {
		if (steps & 1)
			seed *= power;
		power *= power;
	}
	return seed & ((1ULL << 46) - 1);
}

void *npb_alloc(size_t count, size_t bytes)
{
	void *memory = calloc(count > 0 ? count : 1, bytes);

	if (memory == NULL) {
		fprintf(stderr, "latlab-npb: no memory for %zu times %zu bytes\n", count, bytes);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return memory;
}

void npb_check(struct npb_run *run, const char *name, double found, double published, double tolerance)
{
	/* Also false for what is no number. */
	int is_right = fabs(found - published) <= tolerance * fabs(published);

	if (!is_right)
		run->failed_checks++;
	if (run->rank == 0)
		printf("npb-check %s %s %.15g %.15g %s\n", run->kernel, name, found, published,
		       is_right ? "ok" : "wrong");
}

int npb_class_index(const struct npb_run *run)
{
	return run->class == 'S' ? 0 : run->class == 'W' ? 1 : 2;
}

double npb_begin(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Wtime();
}

double npb_elapsed(double begin)
{
	double own = MPI_Wtime() - begin;
	double longest;

	MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return longest;
}

/* One kernel, and its line. A failed verification is told by that line alone, which latlab reads. */
static void run_kernel(const char *name, char class, int rank, int ranks)
{
	struct npb_run run = {.kernel = name, .class = class, .rank = rank, .ranks = ranks};
	size_t at = 0;

	while (strcmp(kernels[at].name, name) != 0)
		at++;
	kernels[at].run(&run);
	if (rank == 0) {
		printf("npb %s class %c ranks %d seconds %.6f mops %.3f verification %s\n", name, class, ranks,
		       run.seconds, run.mops, run.failed_checks == 0 ? "successful" : "failed");
		fflush(stdout);
	}
}

static int is_kernel(const char *name)
{
	for (size_t at = 0; at < KERNELS; at++)
		if (strcmp(kernels[at].name, name) == 0)
			return 1;
	return 0;
}

/* The reason to refuse these arguments and this number of ranks; none if they will do. */
static const char *refusal(int count, char **arguments, int ranks)
{
	if (count < 3 || strlen(arguments[1]) != 1 || strchr("SWA", arguments[1][0]) == NULL)
		return "usage: latlab-npb S|W|A ep|is|cg|mg|ft...";
	for (int at = 2; at < count; at++)
		if (!is_kernel(arguments[at]))
			return "kernels are ep, is, cg, mg and ft";
	if (ranks > NPB_MAX_RANKS || (ranks & (ranks - 1)) != 0)
		return "the number of ranks must be 1, 2, 4 or 8";
	return NULL;
}

int main(int count, char **arguments)
{
	int rank, ranks;
	const char *refused;

	MPI_Init(&count, &arguments);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	refused = refusal(count, arguments, ranks);
	if (refused != NULL) {
		if (rank == 0)
			fprintf(stderr, "latlab-npb: %s\n", refused);
		MPI_Finalize();
		return 2;
	}
	for (int at = 2; at < count; at++)
		run_kernel(arguments[at], arguments[1][0], rank, ranks);
	MPI_Finalize();
	return 0;
}
