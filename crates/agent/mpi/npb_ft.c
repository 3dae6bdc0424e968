// SPDX-License-Identifier: MIT OR Apache-2.0
/* FT: the heat equation on a periodic grid, solved by Fourier transforms of three dimensions (section 2.2.4).
 *
 * Space is divided into slabs along z, the spectrum into slabs along y: a transform is of x and y in the one, a transpose
 * from all ranks to all, and of z in the other.
 */
#include "npb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ITERATIONS 6
#define ALPHA 1e-6
#define MAX_EDGE 256
#define SAMPLES 1024 /* points of a checksum */

struct complex {
	double re, im;
};

static const struct {
	int nx, ny, nz;
	struct complex checksums[ITERATIONS];
} classes[] = {
	{64, 64, 64,
	 {{5.546087004964e+02, 4.845363331978e+02},
	  {5.546385409189e+02, 4.865304269511e+02},
	  {5.546148406171e+02, 4.883910722336e+02},
	  {5.545423607415e+02, 4.901273169046e+02},
	  {5.544255039624e+02, 4.917475857993e+02},
	  {5.542683411902e+02, 4.932597244941e+02}}},
	{128, 128, 32,
	 {{5.673612178944e+02, 5.293246849175e+02},
	  {5.631436885271e+02, 5.282149986629e+02},
	  {5.594024089970e+02, 5.270996558037e+02},
	  {5.560698047020e+02, 5.260027904925e+02},
	  {5.530898991250e+02, 5.249400845633e+02},
	  {5.504159734538e+02, 5.239212247086e+02}}},
	{256, 256, 128,
	 {{5.046735008193e+02, 5.114047905510e+02},
	  {5.059412319734e+02, 5.098809666433e+02},
	  {5.069376896287e+02, 5.098144042213e+02},
	  {5.077892868474e+02, 5.101336130759e+02},
	  {5.085233095391e+02, 5.104914655194e+02},
	  {5.091487099959e+02, 5.107917842803e+02}}},
};

struct field {
	int nx, ny, nz;
	int ranks, rank;
	int own_z, own_y;          /* thickness of this rank's slabs */
	size_t points;             /* of a slab, the same in both */
	struct complex *space;     /* [z][y][x] */
	struct complex *spectrum;  /* [y][x][z] */
	struct complex *evolved;   /* the spectrum at a time */
	struct complex *in, *out;  /* of a transpose */
	double *decay;             /* of each part of the spectrum in one step of time */
	struct complex roots[MAX_EDGE];
};

/* Roots of unity of the longest edge; shorter ones take every second or fourth of them. */
static void make_roots(struct field *f)
{
	for (int at = 0; at < MAX_EDGE; at++) {
		f->roots[at].re = cos(2 * acos(-1) * at / MAX_EDGE);
		f->roots[at].im = sin(2 * acos(-1) * at / MAX_EDGE);
	}
}

/* A transform of one line, by Stockham's algorithm: of `n` points that are `stride` apart, by radix 2. `sign` is that of
 * the exponent. */
static void transform_line(const struct field *f, int sign, int n, struct complex *line, size_t stride)
{
	struct complex lines[2][MAX_EDGE], *from = lines[0], *to = lines[1], *swap;

	for (int at = 0; at < n; at++)
		from[at] = line[(size_t)at * stride];
	for (int blocks = n / 2, length = 1; blocks >= 1; blocks /= 2, length *= 2) {
		int root_step = MAX_EDGE / (2 * blocks);

		for (int block = 0; block < blocks; block++) {
			struct complex w = f->roots[block * root_step];

			w.im *= sign;
			for (int at = 0; at < length; at++) {
				struct complex a = from[block * length + at];
				struct complex b = from[(block + blocks) * length + at];
				struct complex *sum = &to[2 * block * length + at];
				struct complex *rest = sum + length;

				sum->re = a.re + b.re;
				sum->im = a.im + b.im;
				a.re -= b.re;
				a.im -= b.im;
				rest->re = w.re * a.re - w.im * a.im;
				rest->im = w.re * a.im + w.im * a.re;
			}
		}
		swap = from;
		from = to;
		to = swap;
	}
	for (int at = 0; at < n; at++)
		line[(size_t)at * stride] = from[at];
}

static void transform_plane(const struct field *f, int sign, struct complex *space)
{
	for (int z = 0; z < f->own_z; z++) {
		struct complex *plane = space + (size_t)z * (size_t)f->ny * (size_t)f->nx;

		for (int y = 0; y < f->ny; y++)
			transform_line(f, sign, f->nx, plane + (size_t)y * (size_t)f->nx, 1);
		for (int x = 0; x < f->nx; x++)
			transform_line(f, sign, f->ny, plane + x, (size_t)f->nx);
	}
}

static void transform_depth(const struct field *f, int sign, struct complex *spectrum)
{
	for (size_t line = 0; line < f->points / (size_t)f->nz; line++)
		transform_line(f, sign, f->nz, spectrum + line * (size_t)f->nz, 1);
}

/* One rank's part of a transpose: [y][z][x] of its share of y and of this rank's share of z. */
static void copy_part(const struct field *f, struct complex *slab, struct complex *buffer, int rank, int of_space, int is_in)
{
	size_t nx = (size_t)f->nx, nz = (size_t)f->nz;

	buffer += (size_t)rank * f->points / (size_t)f->ranks;
	for (size_t y = 0; y < (size_t)f->own_y; y++) {
		for (size_t z = 0; z < (size_t)f->own_z; z++) {
			struct complex *line;
			size_t stride = of_space ? 1 : nz;

			if (of_space)
				line = slab + (z * (size_t)f->ny + (size_t)rank * (size_t)f->own_y + y) * nx;
			else
				line = slab + y * nx * nz + (size_t)rank * (size_t)f->own_z + z;
			for (size_t x = 0; x < nx; x++, buffer++) {
				if (is_in)
					line[x * stride] = *buffer;
				else
					*buffer = line[x * stride];
			}
		}
	}
}

/* From slabs along z to slabs along y, or back. */
static void transpose(struct field *f, struct complex *from, struct complex *to, int from_space)
{
	int doubles = (int)(2 * f->points / (size_t)f->ranks);

	for (int rank = 0; rank < f->ranks; rank++)
		copy_part(f, from, f->out, rank, from_space, 0);
	MPI_Alltoall(f->out, doubles, MPI_DOUBLE, f->in, doubles, MPI_DOUBLE, MPI_COMM_WORLD);
	for (int rank = 0; rank < f->ranks; rank++)
		copy_part(f, to, f->in, rank, !from_space, 1);
}

static void make_space(struct field *f)
{
	uint64_t state = npb_random_after(NPB_SEED, 2 * f->points * (uint64_t)f->rank);

	for (size_t at = 0; at < f->points; at++) {
		f->space[at].re = npb_random(&state);
		f->space[at].im = npb_random(&state);
	}
}

/* A frequency from -n/2 to n/2 - 1. */
static double frequency(int at, int n)
{
	return at < n / 2 ? at : at - n;
}

static void make_decay(struct field *f)
{
	double *decay = f->decay, pi = acos(-1);

	for (int y = 0; y < f->own_y; y++) {
		double ky = frequency(f->rank * f->own_y + y, f->ny);

		for (int x = 0; x < f->nx; x++) {
			double kx = frequency(x, f->nx);

			for (int z = 0; z < f->nz; z++) {
				double kz = frequency(z, f->nz);

				*decay++ = exp(-4 * ALPHA * pi * pi * (kx * kx + ky * ky + kz * kz));
			}
		}
	}
}

/* A sum of points here and there (section 2.2.4). */
static struct complex checksum(const struct field *f)
{
	struct complex own = {0, 0}, all;
	double total = (double)f->nx * f->ny * f->nz;

	for (int sample = 1; sample <= SAMPLES; sample++) {
		int x = sample % f->nx, y = 3 * sample % f->ny, z = 5 * sample % f->nz - f->rank * f->own_z;

		if (z >= 0 && z < f->own_z) {
			const struct complex *point = f->space + ((size_t)z * (size_t)f->ny + (size_t)y) * (size_t)f->nx + x;

			own.re += point->re / total;
			own.im += point->im / total;
		}
	}
	MPI_Allreduce(&own, &all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

/* The whole problem: the checksum of each step of time. */
static void solve(struct field *f, int iterations, struct complex *checksums)
{
	make_roots(f);
	make_decay(f);
	make_space(f);
	transform_plane(f, -1, f->space);
	transpose(f, f->space, f->spectrum, 1);
	transform_depth(f, -1, f->spectrum);
	for (int at = 0; at < iterations; at++) {
		for (size_t point = 0; point < f->points; point++) {
			f->spectrum[point].re *= f->decay[point];
			f->spectrum[point].im *= f->decay[point];
		}
		memcpy(f->evolved, f->spectrum, f->points * sizeof(struct complex));
		transform_depth(f, 1, f->evolved);
		transpose(f, f->evolved, f->space, 0);
		transform_plane(f, 1, f->space);
		checksums[at] = checksum(f);
	}
}

void npb_ft(struct npb_run *run)
{
	int class = npb_class_index(run);
	struct field f = {.nx = classes[class].nx, .ny = classes[class].ny, .nz = classes[class].nz};
	struct complex found[ITERATIONS], **arrays[] = {&f.space, &f.spectrum, &f.evolved, &f.in, &f.out};
	double total = (double)f.nx * f.ny * f.nz, begin;

	f.ranks = run->ranks;
	f.rank = run->rank;
	f.own_z = f.nz / f.ranks;
	f.own_y = f.ny / f.ranks;
	f.points = (size_t)f.nx * (size_t)f.ny * (size_t)f.own_z;
	for (size_t at = 0; at < sizeof(arrays) / sizeof(arrays[0]); at++)
		*arrays[at] = npb_alloc(f.points, sizeof(struct complex));
	f.decay = npb_alloc(f.points, sizeof(double));
	/* Once to touch all memory, without the clock. */
	solve(&f, 1, found);

	begin = npb_begin();
	solve(&f, ITERATIONS, found);
	run->seconds = npb_elapsed(begin);
	/* NPB's count of operations: of the making, and of the steps. */
	run->mops = total * 1e-6 *
		    (14.8157 + 7.19641 * log(total) + (5.23518 + 7.21113 * log(total)) * ITERATIONS) / run->seconds;
	for (int at = 0; at < ITERATIONS; at++) {
		npb_check(run, "checksum-real", found[at].re, classes[class].checksums[at].re, 1e-12);
		npb_check(run, "checksum-imaginary", found[at].im, classes[class].checksums[at].im, 1e-12);
	}
	for (size_t at = 0; at < sizeof(arrays) / sizeof(arrays[0]); at++)
		free(*arrays[at]);
	free(f.decay);
}
