// SPDX-License-Identifier: MIT OR Apache-2.0
/* IS, "integer sort": ranks of keys, ten times over, by buckets that are exchanged all to all (section 2.2.5). */
#include "npb.h"

#include <stdlib.h>
#include <string.h>

#define ITERATIONS 10
#define LOG_BUCKETS 10
#define BUCKETS (1 << LOG_BUCKETS)
#define TESTS 5

/* Logarithms of the number of keys and of their range. Each iteration changes two keys, so that published ranks move with
 * it: the first `rising` of them up, the others down, from that of iteration `up` and `down`. */
static const struct {
	int log_keys, log_range;
	int at[TESTS], rank[TESTS];
	int rising, up, down;
} classes[] = {
	{16, 11, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}, 3, 0, 0},
	{20, 16, {357773, 934767, 875723, 898999, 404505}, {1249, 11698, 1039987, 1043896, 1048018}, 2, 2, 0},
	{23, 19, {2112377, 662041, 5336171, 3642833, 4250760}, {104, 17523, 123928, 8288932, 8388264}, 3, 1, 1},
};

struct sort {
	int class;
	int rank, ranks;
	int own, range;
	int *keys;                  /* of this rank, in the order they were made */
	int *sorted_by_bucket;
	int *received;              /* the keys of this rank's buckets */
	int *below;                 /* keys of this rank's buckets that are not above a key */
	int total_received;
	int first_key, end_key;     /* the range of this rank's buckets */
	long long smaller_elsewhere; /* keys below first_key */
	int send_counts[NPB_MAX_RANKS], send_at[NPB_MAX_RANKS];
	int receive_counts[NPB_MAX_RANKS], receive_at[NPB_MAX_RANKS];
};

/* Sums of four random numbers each. */
static void make_keys(struct sort *sort)
{
	uint64_t state = npb_random_after(NPB_SEED, 4ULL * (uint64_t)sort->own * (uint64_t)sort->rank);

	for (int at = 0; at < sort->own; at++) {
		double sum = npb_random(&state);

		for (int more = 0; more < 3; more++)
			sum += npb_random(&state);
		sort->keys[at] = (int)(sort->range / 4 * sum);
	}
}

/* Sizes of all ranks' buckets together, and behind them the keys whose ranks are published. */
static void count_buckets(struct sort *sort, int *own_sizes, int *sizes)
{
	int shift = classes[sort->class].log_range - LOG_BUCKETS;

	memset(own_sizes, 0, (BUCKETS + TESTS) * sizeof(int));
	for (int at = 0; at < sort->own; at++)
		own_sizes[sort->keys[at] >> shift]++;
	for (int test = 0; test < TESTS; test++) {
		int at = classes[sort->class].at[test] - sort->own * sort->rank;

		if (at >= 0 && at < sort->own)
			own_sizes[BUCKETS + test] = sort->keys[at];
	}
	MPI_Allreduce(own_sizes, sizes, BUCKETS + TESTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* Gives each rank neighbouring buckets, with as even a share of all keys as whole buckets make. */
static void divide_buckets(struct sort *sort, const int *own_sizes, const int *sizes)
{
	int shift = classes[sort->class].log_range - LOG_BUCKETS;
	long long share = 1LL << classes[sort->class].log_keys;
	long long sum = 0, before = 0;
	int bucket = 0;

	share /= sort->ranks;
	for (int rank = 0; rank < sort->ranks; rank++) {
		int first = bucket;
		int is_last = rank == sort->ranks - 1;

		before = sum;
		sort->send_counts[rank] = 0;
		for (; bucket < BUCKETS && (is_last || sum < share * (rank + 1)); bucket++) {
			sort->send_counts[rank] += own_sizes[bucket];
			sum += sizes[bucket];
		}
		sort->send_at[rank] = rank == 0 ? 0 : sort->send_at[rank - 1] + sort->send_counts[rank - 1];
		if (rank == sort->rank) {
			sort->first_key = first << shift;
			sort->end_key = bucket << shift;
			sort->smaller_elsewhere = before;
			sort->total_received = (int)(sum - before);
		}
	}
}

static void exchange_keys(struct sort *sort, const int *own_sizes)
{
	int shift = classes[sort->class].log_range - LOG_BUCKETS;
	int next[BUCKETS];

	next[0] = 0;
	for (int bucket = 1; bucket < BUCKETS; bucket++)
		next[bucket] = next[bucket - 1] + own_sizes[bucket - 1];
	for (int at = 0; at < sort->own; at++)
		sort->sorted_by_bucket[next[sort->keys[at] >> shift]++] = sort->keys[at];
	MPI_Alltoall(sort->send_counts, 1, MPI_INT, sort->receive_counts, 1, MPI_INT, MPI_COMM_WORLD);
	sort->receive_at[0] = 0;
	for (int rank = 1; rank < sort->ranks; rank++)
		sort->receive_at[rank] = sort->receive_at[rank - 1] + sort->receive_counts[rank - 1];
	MPI_Alltoallv(sort->sorted_by_bucket, sort->send_counts, sort->send_at, MPI_INT, sort->received,
		      sort->receive_counts, sort->receive_at, MPI_INT, MPI_COMM_WORLD);
}

/* Ranks all keys once. Returns how many of the published ranks this rank has and found right. */
static int rank_keys(struct sort *sort, int iteration)
{
	int own_sizes[BUCKETS + TESTS], sizes[BUCKETS + TESTS];
	int keys, passed = 0;

	if (sort->rank == 0) {
		sort->keys[iteration] = iteration;
		sort->keys[iteration + ITERATIONS] = sort->range - iteration;
	}
	count_buckets(sort, own_sizes, sizes);
	divide_buckets(sort, own_sizes, sizes);
	exchange_keys(sort, own_sizes);

	keys = sort->end_key - sort->first_key;
	memset(sort->below, 0, (size_t)keys * sizeof(int));
	for (int at = 0; at < sort->total_received; at++)
		sort->below[sort->received[at] - sort->first_key]++;
	for (int key = 1; key < keys; key++)
		sort->below[key] += sort->below[key - 1];

	for (int test = 0; test < TESTS; test++) {
		int key = sizes[BUCKETS + test] - sort->first_key;
		long long rank = classes[sort->class].rank[test];

		if (key < 0 || key >= keys)
			continue;
		rank += test < classes[sort->class].rising ? iteration - classes[sort->class].up
							   : classes[sort->class].down - iteration;
		passed += sort->smaller_elsewhere + (key > 0 ? sort->below[key - 1] : 0) == rank;
	}
	return passed;
}

/* Places out of order in the whole sequence, and keys that are missing in it: 0 is right. */
static long long full_verification(struct sort *sort)
{
	int *sequence = npb_alloc((size_t)sort->total_received, sizeof(int));
	int last_before = -1, last = -1;
	long long own[2] = {0, sort->total_received}, all[2];

	for (int at = 0; at < sort->total_received; at++)
		sequence[--sort->below[sort->received[at] - sort->first_key]] = sort->received[at];
	if (sort->total_received > 0)
		last = sequence[sort->total_received - 1];
	MPI_Exscan(&last, &last_before, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (sort->rank == 0)
		last_before = -1;
	for (int at = 0; at < sort->total_received; at++)
		own[0] += sequence[at] < (at == 0 ? last_before : sequence[at - 1]);
	free(sequence);
	MPI_Allreduce(own, all, 2, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	return all[0] + llabs(all[1] - (1LL << classes[sort->class].log_keys));
}

void npb_is(struct npb_run *run)
{
	struct sort sort = {.class = npb_class_index(run), .rank = run->rank, .ranks = run->ranks};
	int keys = 1 << classes[sort.class].log_keys;
	int passed = 0, all_passed;
	double begin;

	sort.own = keys / run->ranks;
	sort.range = 1 << classes[sort.class].log_range;
	sort.keys = npb_alloc((size_t)sort.own, sizeof(int));
	sort.sorted_by_bucket = npb_alloc((size_t)sort.own, sizeof(int));
	sort.received = npb_alloc((size_t)keys, sizeof(int));
	sort.below = npb_alloc((size_t)sort.range, sizeof(int));
	make_keys(&sort);
	/* Once beforehand, without the clock: pages and connections are there then. */
	rank_keys(&sort, 1);

	begin = npb_begin();
	for (int iteration = 1; iteration <= ITERATIONS; iteration++)
		passed += rank_keys(&sort, iteration);
	run->seconds = npb_elapsed(begin);
	run->mops = (double)ITERATIONS * keys / run->seconds / 1e6;

	MPI_Allreduce(&passed, &all_passed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	npb_check(run, "ranks", all_passed, TESTS * ITERATIONS, 0);
	npb_check(run, "out-of-order", (double)full_verification(&sort), 0, 0);
	free(sort.keys);
	free(sort.sorted_by_bucket);
	free(sort.received);
	free(sort.below);
}
