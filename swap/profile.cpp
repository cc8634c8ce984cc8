#include "swap/profile.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/whole_file.h"

namespace sectionflow {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "sectionflow profile";
constexpr int kVersion = 1;
/// No kernel takes longer, no machine is faster: what lies beyond is a damaged file.
constexpr double kMostSeconds = 1e6, kMostRate = 1e18, kLeastRate = 1, kMostDrag = 1;
constexpr std::size_t kMostKernels = 1'000'000, kMostBytes = 256'000'000;

struct Field {
  const char* name;
  double Profile::*member;
};
constexpr Field kRates[] = {{"flops", &Profile::flops},       {"memory_bandwidth", &Profile::memory_bandwidth},
                            {"link_out", &Profile::link_out}, {"link_in", &Profile::link_in},
                            {"disk_out", &Profile::disk_out}, {"disk_in", &Profile::disk_in}};

double number_of(const Json& json, const std::string& name, double least, double most, const std::string& where) {
  SF_CHECK(json.is_number(), DataError, where, "'", name, "' is ", json.type_name(), "; wanted a number");
  const double number = json.get<double>();
  SF_CHECK(std::isfinite(number) && number >= least && number <= most, DataError, where, "'", name, "' is ", number,
           "; wanted ", least, " to ", most);
  return number;
}

const Json& member_of(const Json& json, const char* name, const std::string& where) {
  const auto found = json.find(name);
  SF_CHECK(found != json.end(), DataError, where, "'", name, "' is missing");
  return *found;
}

Profile profile_of(const Json& json, const std::string& where) {
  SF_CHECK(json.is_object() && json.value("format", Json()) == kFormat, DataError, where, "this is no profile",
           hint("make one with measure_profile and Profile::save"));
  SF_CHECK(member_of(json, "version", where) == kVersion, DataError, where, "the profile has version ",
           json["version"].dump(), "; wanted ", kVersion, hint("measure it again"));
  Profile profile;
  for (const Field& field : kRates) {
    profile.*field.member = number_of(member_of(json, field.name, where), field.name, kLeastRate, kMostRate, where);
  }
  profile.launch_seconds =
      number_of(member_of(json, "launch_seconds", where), "launch_seconds", 0, kMostSeconds, where);
  if (json.contains("copy_drag")) profile.copy_drag = number_of(json["copy_drag"], "copy_drag", 0, kMostDrag, where);
  const Json& kernels = member_of(json, "kernel_seconds", where);
  SF_CHECK(kernels.is_object() && kernels.size() <= kMostKernels, DataError, where,
           "'kernel_seconds' is no object of at most ", kMostKernels, " kernels");
  for (const auto& [key, value] : kernels.items()) {
    profile.kernel_seconds[key] = number_of(value, key, 0, kMostSeconds, where);
  }
  return profile;
}

}  // namespace

Profile Profile::load(const std::string& path, Where where) {
  return call_at(where, [&] {
    return from_json(read_whole_file(path, kMostBytes, "profile"), text_of("profile: '", path, "': "));
  });
}

Profile Profile::load_or_measure(const std::string& path, const std::function<Profile()>& measure, Where where) {
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown) || unknown) return load(path, where);
  const Profile profile = measure();
  profile.save(path, where);
  return profile;
}

Profile Profile::from_json(const std::string& text, const std::string& where) {
  // Nesting is bounded, so that a hostile text cannot exhaust the stack.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 2; };
  const Json json = Json::parse(text, shallow, false);
  SF_CHECK(!json.is_discarded(), DataError, where, "this is no JSON");
  return profile_of(json, where);
}

std::string Profile::json() const {
  Json json = {
      {"format", kFormat}, {"version", kVersion}, {"launch_seconds", launch_seconds}, {"copy_drag", copy_drag}};
  for (const Field& field : kRates) json[field.name] = this->*field.member;
  json["kernel_seconds"] = kernel_seconds;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

void Profile::save(const std::string& path, Where where) const {
  const std::string text = json();
  call_at(where, [&] {
    SF_CHECK(text.size() <= kMostBytes, DataError, "profile: '", path, "': would have ", text.size(),
             " bytes; wanted at most ", kMostBytes, hint("save a profile for each model"));
    write_whole_file(path, text, "profile");
  });
}

void check_profile(const Profile& profile, const std::string& call) {
  const auto check = [&](const std::string& name, double number, double least, double most) {
    SF_CHECK(std::isfinite(number) && number >= least && number <= most, ArgumentError, call, ": the profile's '", name,
             "' is ", number, "; wanted ", least, " to ", most, hint("measure_profile measures this machine's"));
  };
  for (const Field& field : kRates) check(field.name, profile.*field.member, kLeastRate, kMostRate);
  check("launch_seconds", profile.launch_seconds, 0, kMostSeconds);
  check("copy_drag", profile.copy_drag, 0, kMostDrag);
  for (const auto& [key, seconds] : profile.kernel_seconds) check(key, seconds, 0, kMostSeconds);
}

std::size_t digest_of(const Profile& profile) {
  std::size_t digest = profile.kernel_seconds.size();
  const auto add = [&](std::size_t hash) { digest = digest * 1'000'003 + hash; };
  for (const auto& [key, seconds] : profile.kernel_seconds) {
    add(std::hash<std::string>()(key));
    add(std::hash<double>()(seconds));
  }
  for (double number : {profile.flops, profile.memory_bandwidth, profile.launch_seconds, profile.link_out,
                        profile.link_in, profile.copy_drag, profile.disk_out, profile.disk_in}) {
    add(std::hash<double>()(number));
  }
  return digest;
}

}  // namespace sectionflow
