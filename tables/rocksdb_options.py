"""How RocksDB is set up for a partition: its share of memory, and what is kept small."""

import functools

import rocksdict

#: A partition's share of memory: two write buffers of 4 MiB; the block cache is shared by all partitions of a worker.
_WRITE_BUFFER = 4 << 20
_BLOCK_CACHE = 32 << 20


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
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_max_open_files(256)
    options.set_max_file_opening_threads(1)  # each opening would start and end sixteen, a quarter of its time
    options.set_keep_log_file_num(2)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    return options
