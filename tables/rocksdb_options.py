"""RocksDB's options for a partition, which limit its memory and the cost of compaction."""

import functools

import rocksdict

#: A partition's share of memory: a write buffer, and a second one while the first is written to disk. Messages that are
#: delivered before their buffer is full leave only tombstones on disk. All partitions of a worker share a block cache.
_WRITE_BUFFER = 8 << 20
_BLOCK_CACHE = 32 << 20
#: The first level below the flushed files is rewritten with each four flushed files, and fills with millions of
#: tombstones. A small level with small files passes tombstones on early, together with the rows that they delete.
#: With the defaults of 256 and 64 MiB this took 12 µs of CPU for each message of one second's delay, now 1.3; with
#: random ids 14 and 6 (one partition, above 2,500,000 rows, at most 25,000 a second).
_BASE_LEVEL = 16 << 20
_BASE_FILE, _FILE_GROWTH = 8 << 20, 2


@functools.cache
def _block_cache() -> rocksdict.Cache:
    return rocksdict.Cache(_BLOCK_CACHE)


def common_options(write_buffer: int, open_files: int) -> rocksdict.Options:
    """Return the options that all databases are opened with; `write_buffer` is in bytes."""
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003 - theirs
    options.set_write_buffer_size(write_buffer)
    options.set_max_open_files(open_files)
    options.set_keep_log_file_num(2)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    return options


def rocksdb_options() -> rocksdict.Options:
    """Return the options that a partition's database is opened with."""
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_block_cache(_block_cache())
    blocks.set_bloom_filter(10, block_based=False)
    blocks.set_cache_index_and_filter_blocks(True)
    # Filters and indexes are partitioned: a whole file's filter or index is larger than a shard of the cache (1/64),
    # and would be read again at every lookup (75 µs instead of 5).
    blocks.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    blocks.set_pin_top_level_index_and_filter(True)
    options = common_options(_WRITE_BUFFER, open_files=256)
    options.set_block_based_table_factory(blocks)
    options.set_max_write_buffer_number(3)
    # RocksDB uses insert hints (tables/database.py) only for unordered writes. Unordered writes are not atomic for
    # concurrent readers, which does not matter here, because the store is used by one thread.
    options.set_unordered_write(True)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_max_bytes_for_level_base(_BASE_LEVEL)
    options.set_target_file_size_base(_BASE_FILE)
    options.set_target_file_size_multiplier(_FILE_GROWTH)
    options.set_max_file_opening_threads(1)  # each opening would start and end sixteen threads, a quarter of its time
    return options
