#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "base/error.h"
#include "base/export.h"

namespace SF_API sectionflow {

/// How fast a machine is: the time of each kernel, and how many bytes a second are transferred between the tiers.
/// Decides nothing by itself; the same profile gives the same plan.
struct Profile {
  /// By kernel_key. A replay that is not among them takes as long as the first execution.
  std::map<std::string, double> kernel_seconds{};
  double flops = 100e9;            ///< a second, of convolutions and products that `kernel_seconds` does not know
  double memory_bandwidth = 10e9;  ///< bytes a second, of all other kernels, and of feeds and fetches
  double launch_seconds = 2e-6;    ///< of every step, besides its work, where `kernel_seconds` does not know it
  double link_out = 10e9;  ///< bytes a second from device to host, by whoever carries copies; without a throttle
  double link_in = 10e9;   ///< bytes a second from host to device
  /// Seconds for each byte that a copy thread moves by which kernels beside it take longer. Not of the disk's copies.
  double copy_drag = 0;
  double disk_out = 1e9;  ///< bytes a second written
  double disk_in = 2e9;   ///< bytes a second read

  /// A fixed machine, the same everywhere.
  static Profile nominal() { return {}; }
  /// Reads what `save` has written. Throws: DataError for a file that cannot be read, is larger than 256 MB or is no
  /// profile, with its path.
  static Profile load(const std::string& path, Where where = Where::here());
  /// Writes a JSON file; the old one stays whole if anything fails. Throws: DataError when it cannot be written.
  void save(const std::string& path, Where where = Where::here()) const;
  /// Reads the file or, where there is none yet, measures and writes it. Throws: what load, save and `measure` throw.
  static Profile load_or_measure(const std::string& path, const std::function<Profile()>& measure,
                                 Where where = Where::here());

  /// The text of such a file.
  std::string json() const;
  /// Reads a text that nobody vouches for. Throws: DataError, beginning with `where`, when it is no profile.
  static Profile from_json(const std::string& text, const std::string& where);

  friend bool operator==(const Profile&, const Profile&) = default;
};

/// Throws: ArgumentError (SF-E010) for numbers that no file of a profile may have: speeds, times and drag that are not
/// finite, negative or beyond any machine's. `call`: who was given the profile.
void check_profile(const Profile& profile, const std::string& call);

/// A number that tells profiles apart within a process.
std::size_t digest_of(const Profile& profile);

}  // namespace sectionflow
