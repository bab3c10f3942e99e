"""How RocksDB is set up for a partition: its share of memory, and what is kept small."""

import functools

import rocksdict

#: A partition's share of memory: a write buffer, and a second one while that is written to disk. What is delivered
#: before its buffer is full leaves on disk no more than that it is gone. The block cache is a worker's for them all.
_WRITE_BUFFER = 8 << 20
_BLOCK_CACHE = 32 << 20
#: The first level below the flushed files is rewritten with each four of them, and fills with what is gone by now, of
#: which a file holds millions: kept small, and in small files, it passes that on early, beside rows that it concerns.
#: With the defaults of 256 and 64 MiB this took 12 µs of CPU for each message of one second's delay, now 1.3; with ids
#: that come in no order 14 and 6 (one partition, above 2,500,000 rows, at most 25,000 a second).
_BASE_LEVEL = 16 << 20
_BASE_FILE, _FILE_GROWTH = 8 << 20, 2


@functools.cache
def _block_cache() -> rocksdict.Cache:
    return rocksdict.Cache(_BLOCK_CACHE)


def rocksdb_options() -> rocksdict.Options:
    """Return the options that a partition's database is opened with."""
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_block_cache(_block_cache())
    blocks.set_bloom_filter(10, block_based=False)
    blocks.set_cache_index_and_filter_blocks(True)
    # In small parts: a filter or index for a whole file is more than a shard of the cache (1/64) holds, and would be
    # read anew by every look at it (75 µs instead of 5).
    blocks.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    blocks.set_pin_top_level_index_and_filter(True)
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003 - theirs
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(_WRITE_BUFFER)
    options.set_max_write_buffer_number(3)
    # RocksDB goes from one key of a write to the next (tables/database.py) in this kind of write alone. What it does
    # not promise, that a write is seen whole or not at all by who reads meanwhile, nobody needs: nothing else runs.
    options.set_unordered_write(True)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_max_bytes_for_level_base(_BASE_LEVEL)
    options.set_target_file_size_base(_BASE_FILE)
    options.set_target_file_size_multiplier(_FILE_GROWTH)
    options.set_max_open_files(256)
    options.set_max_file_opening_threads(1)  # each opening would start and end sixteen, a quarter of its time
    options.set_keep_log_file_num(2)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    return options
