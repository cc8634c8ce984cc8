#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/export.h"
#include "data/source.h"
#include "sources/image.h"

namespace SF_API sectionflow {

/// What is made of the pictures in a database of Caffe's.
struct LmdbOptions {
  /// Files in records are decoded; otherwise they are given as they are, u8 [n].
  bool decode = true;
  ImageOptions image{};  ///< of files that are decoded
  /// Pictures that are no files have blue first, as Caffe's tools write them, and are given, and written, with red
  /// first. Of pictures of three channels alone.
  bool blue_first = true;
};

/// The records (Datum) of an LMDB database by their keys: {"image": u8 or f32 [H,W,C], "label": i32 []}. `path` is the
/// folder with data.mdb, or the file itself. The file is not trusted: before liblmdb reads it, its pages are checked to
/// lie within the file and to hold what they say, so that damage is an error; it must then stay as it is. Nothing is
/// written, nor locked: nobody may write it at the same time. A file that has been cut off since is refused before each
/// walk and record; where that happens amid one, the system ends the process (SIGBUS), since liblmdb maps the file. A
/// stream that has thrown goes on with the next record. Throws: DataError (SF-E407) naming file, record and key;
/// (SF-E411) where pages have gone; (SF-E408) where liblmdb is absent.
/// Source: BVLC/caffe, tools/convert_imageset.cpp; OpenLDAP, libraries/liblmdb/mdb.c.
std::shared_ptr<const StreamSource> lmdb_source(const std::filesystem::path& path, LmdbOptions options = {});

/// Writes examples as a database of Caffe's, in a new folder `path`, which appears when all are written: {"image": u8
/// [H,W,C], f32 [H,W,C], or a JPEG or PNG file as u8 [n]; "label": a number}. Keys are the examples' numbers, of eight
/// digits. Returns how many there are. Throws: DataError when `path` is there already, for an example that is none of
/// these, and when the disk refuses: nothing is left then; (SF-E408) where liblmdb is absent.
std::int64_t write_lmdb(const std::filesystem::path& path, const IndexedSource& source, LmdbOptions options = {});

}  // namespace sectionflow
