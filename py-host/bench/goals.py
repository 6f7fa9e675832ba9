"""What must be reached: the one table of targets.

A target that speaks of "the best" of several contenders names them by a label
with ``...`` in it.
"""

from __future__ import annotations

from targets import Target

OUT, NEW = "zrecord, out", "zrecord, new"
NUMPY, NUMPY_ANY = "numpy ...out", "numpy ..."
OLD = "loaderx 0.9.4..."
NEWEST = "loaderx newest..."
COPYING, LIBZSTD = "limit: copy on all cores", "limit: libzstd on all cores"
WITHOUT_SAVING = "zrecord, default min_saving, out"


def ratios(table: str, *wanted: tuple[str, str, float]) -> list[Target]:
    """Of one table: ours, theirs, and at least how many times as fast."""
    return [Target(table, ours, theirs, at_least) for ours, theirs, at_least in wanted]


STORE = [
    *ratios(
        "raw gather, 12 KiB, noisy",
        (OUT, NUMPY, 1.7),
        (NEW, NUMPY, 1.3),
        (OUT, OLD, 3),
        (OUT, COPYING, 0.85),
        # Within a fifth.
        ("zrecord, out at page + 16", OUT, 1 / 1.2),
    ),
    *ratios("raw gather, 256 B, noisy", (OUT, NUMPY_ANY, 1.3), (OUT, OLD, 10)),
    *ratios("raw gather, 1 KiB, noisy", (OUT, NUMPY_ANY, 1.3), (OUT, OLD, 10)),
    *ratios("raw gather, 150 KiB, noisy", (OUT, NUMPY, 2.2), (NEW, NUMPY, 2.2), (OUT, OLD, 4)),
    *ratios(
        "zstd gather, 12 KiB, noisy",
        (OUT, LIBZSTD, 0.9),
        (OUT, OLD, 1.03),
        (WITHOUT_SAVING, OLD, 8),
    ),
    # At most five per cent more disk.
    Target("zstd gather, 12 KiB, noisy", WITHOUT_SAVING, OLD, 1 / 1.05, measure="disk"),
    *ratios("zstd gather, 12 KiB, smooth", (OUT, LIBZSTD, 0.9), (OUT, OLD, 1.15)),
    *ratios("zstd_dict gather, 12 KiB, structured", (OUT, LIBZSTD, 0.9), (OUT, OLD, 1.3)),
    *ratios("zstd_dict gather, 12 KiB, smooth", (OUT, LIBZSTD, 0.9), (OUT, OLD, 1.3)),
    *ratios("zstd_dict gather, 64 B, digits", (OUT, LIBZSTD, 0.9), (OUT, OLD, 1.3)),
]

SMALL_DICTIONARY = "zrecord, level 3, dictionary of 32 KiB"

WRITE = [
    *ratios(
        "raw append, 12 KiB, noisy", ("zrecord", "loaderx 0.9.4", 3), ("zrecord", "np.save", 0.7)
    ),
    *ratios("raw append + fsync, 12 KiB, noisy", ("zrecord", "np.save", 0.85)),
    *ratios(
        "zstd append, 12 KiB, noisy",
        ("zrecord", LIBZSTD, 0.9),
        ("zrecord", "loaderx 0.9.4", 1.4),
    ),
    *ratios(
        "zstd append, 12 KiB, smooth", ("zrecord", LIBZSTD, 0.9), ("zrecord", "loaderx 0.9.4", 1)
    ),
    *(
        target
        for data in ("structured", "smooth")
        for target in [
            *ratios(
                f"zstd_dict append, 12 KiB, {data}",
                ("zrecord, within 6 % of loaderx's size", "loaderx 0.9.4", 3),
                ("zrecord, within 1 % of loaderx's size", "loaderx 0.9.4", 1.3),
                (SMALL_DICTIONARY, "loaderx 0.9.4", 50),
                (SMALL_DICTIONARY, NEWEST, 1),
            ),
            # At an equal ratio: not a hundredth larger.
            Target(
                f"zstd_dict append, 12 KiB, {data}",
                SMALL_DICTIONARY,
                NEWEST,
                1 / 1.01,
                measure="disk",
            ),
        ]
    ),
]

SAMPLER = [
    *ratios("sampler, 256 of 1,000,000", ("zrecord iid", "numpy integers", 6)),
    *ratios("sampler, 8192 of 1,000,000", ("zrecord iid", "numpy integers", 3)),
    *(
        target
        for batch in (256, 8192)
        for target in ratios(
            f"sampler, {batch} of 1,000,000",
            ("zrecord iid", "loaderx newest iid", 1),
            ("zrecord cyclic", "numpy permutation in slices", 3),
            ("zrecord cyclic", "loaderx 0.9.4 cyclic", 2.5),
            ("zrecord cyclic", "loaderx newest cyclic", 1),
        )
    ),
]

LOADER = ratios(
    "loader, 12 KiB",
    ("zrecord", "limit: bare gather", 0.8),
    ("zrecord", "loaderx 0.9.4", 2),
    ("zrecord", "torch...", 10),
    ("zrecord", "grain...", 50),
)

COLD = ratios(
    "cold random gather, 12 KiB",
    ("zrecord", "numpy fancy", 20),
    ("zrecord", "limit: pread, 16 threads", 0.8),
    ("zrecord, first pass", "numpy fancy", 20),
    ("zrecord, first pass", "limit: pread, 16 threads", 0.8),
)

SMALL = [
    Target("opening", "zrecord, many records", at_most=5e-3),
    # Whatever the count.
    Target("opening", "zrecord, many records", at_most=1e6, measure="memory"),
    Target("one record, 256 B", "zrecord, above the copy", at_most=2e-6),
    Target("one record, 12 KiB", "zrecord, above the copy", at_most=2e-6),
    # Flat: not a fifth more.
    *ratios(
        "cost of more records",
        *(
            (f"zrecord, {count:,} records", "zrecord, 1,000 records", 1 / 1.2)
            for count in (10**4, 10**5, 10**6, 10**7)
        ),
    ),
    Target("cost of a batch", "zrecord, 1 chunk", at_most=5e-6),
    Target("cost of a batch", "zrecord, 4 chunks", at_most=5e-6),
]

GOALS: dict[str, list[Target]] = {
    "store": STORE,
    "write": WRITE,
    "sampler": SAMPLER,
    "loader": LOADER,
    "cold": COLD,
    "small": SMALL,
    # A study, of which nothing is demanded.
    "frames": [],
}
