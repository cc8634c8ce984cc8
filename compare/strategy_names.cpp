#include "compare/strategy_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/nearest.h"
#include "fit/fit_budget.h"
#include "fit/insert_swaps.h"
#include "swap/lms.h"

namespace sectionflow {
namespace {

/// A strategy as it is asked for: "sections:4" is of the kind "sections", with the argument "4".
struct Asked {
  const std::string& name;
  std::optional<std::string> argument;
  const StrategySource& source;
};

/// What fit_budget may do, by the argument of the strategy.
struct SearchWay {
  const char* argument;  ///< nullptr: none
  bool may_recompute = true, may_swap = true, may_split = true;

  std::string name() const { return argument == nullptr ? "auto" : text_of("auto:", argument); }
};
constexpr SearchWay kSearchWays[] = {{nullptr},
                                     {.argument = "recompute", .may_swap = false},
                                     {.argument = "swap", .may_recompute = false},
                                     {.argument = "unsplit", .may_split = false}};

struct Kind {
  const char* name;
  const char* form;      ///< for people; nullptr: the names of kSearchWays
  const char* argument;  ///< one that it may have; nullptr where it has none
  Strategy (*make)(const Asked&);
  bool stands_alone = false;  ///< the argument may be left out
};

/// "; did you mean 'cuts:auto'?"; empty where its argument is near none of these.
std::string near_text(const Asked& asked, const std::vector<std::string>& arguments) {
  const std::optional<std::string> near = nearest_spelling(*asked.argument, arguments);
  return near ? text_of("; did you mean '", asked.name.substr(0, asked.name.find(':') + 1), *near, "'?") : "";
}

Strategy whole(const Asked& asked) {
  return {.name = asked.name, .whole_graph = true, .build = asked.source.model(asked.source.cut_of_whole)};
}

Strategy sections(const Asked& asked) {
  return {.name = asked.name,
          .build = asked.source.model(*asked.argument),
          .sections = SectionOptions{.borders = BorderPolicy::keep}};
}

/// Sections whose borders are placed: so many, or as the budget says.
Strategy cuts(const Asked& asked) {
  PlaceCutsOptions options;
  options.profile = asked.source.profile;
  options.may_swap = false;
  if (*asked.argument != "auto") {
    const char* const end = asked.argument->data() + asked.argument->size();
    const auto [stop, error] = std::from_chars(asked.argument->data(), end, options.sections);
    SF_CHECK(error == std::errc() && stop == end && options.sections > 0, ArgumentError, "'", asked.name,
             "' is no strategy", near_text(asked, {"auto"}),
             "; wanted cuts:auto, or a number of sections, as in cuts:4");
  }
  return {.name = asked.name,
          .build = asked.source.model("placed"),
          .cuts = std::move(options),
          .sections = SectionOptions{.borders = BorderPolicy::keep}};
}

Strategy sections_and_swap(const Asked& asked) {
  Strategy strategy = sections(asked);
  strategy.sections = SectionOptions{.borders = BorderPolicy::automatic, .interior = InteriorPolicy::automatic};
  strategy.profile = asked.source.profile;
  return strategy;
}

Strategy swap(const Asked& asked) {
  Strategy strategy = whole(asked);
  strategy.edit_session = [profile = asked.source.profile](Session& session) {
    insert_swaps(session, {.profile = profile});
  };
  return strategy;
}

/// Whatever the planner chooses, or without one of its ways.
Strategy automatic(const Asked& asked) {
  std::vector<std::string> arguments;
  for (const SearchWay& known : kSearchWays) {
    if (known.argument != nullptr) arguments.emplace_back(known.argument);
  }
  const auto way = std::ranges::find(kSearchWays, asked.name, &SearchWay::name);
  SF_CHECK(way != std::end(kSearchWays), ArgumentError, "'", asked.name, "' is no strategy",
           near_text(asked, arguments), "; wanted ", searching_strategies("or"));
  Strategy strategy = whole(asked);
  strategy.fit = {.profile = asked.source.profile,
                  .may_recompute = way->may_recompute,
                  .may_swap = way->may_swap,
                  .may_split = way->may_split,
                  .effort = asked.source.effort,
                  .progress = asked.source.on_planning,
                  .stop = asked.source.stop,
                  .plan = asked.source.plan,
                  .replan = asked.source.replan};
  strategy.edit_session = [fit = *strategy.fit](Session& session) { fit_budget(session, fit); };
  return strategy;
}

/// "auto", or threshold, ahead, groupby and sync mode: "20/3/2/0".
LmsOptions lms_options(const Asked& asked) {
  LmsOptions options;
  if (*asked.argument == "auto") return options;
  const std::array<int*, 4> numbers = {&options.swapout_threshold, &options.swapin_ahead, &options.swapin_groupby,
                                       &options.sync_mode};
  const char* at = asked.argument->data();
  const char* const end = at + asked.argument->size();
  for (int* const number : numbers) {
    const bool separated = number == numbers.front() || (at < end && *at++ == '/');
    const auto [stop, error] = std::from_chars(at, end, *number);
    SF_CHECK(separated && error == std::errc(), ArgumentError, "'", asked.name, "' is no strategy",
             near_text(asked, {"auto"}),
             "; wanted lms:auto, or threshold, ahead, groupby and sync mode, as in lms:20/3/2/0");
    at = stop;
  }
  SF_CHECK(at == end, ArgumentError, "'", asked.name, "' is no strategy; wanted four numbers, as in lms:20/3/2/0");
  return options;
}

Strategy lms(const Asked& asked) {
  Strategy strategy = whole(asked);
  strategy.edit_graph = [options = Lms(lms_options(asked)).options()](Graph& graph, const StrategySetting& setting) {
    LmsOptions here = options;
    here.batch_size = setting.batch;
    here.device_memory = setting.device_memory;
    Lms(here).run(graph);
  };
  return strategy;
}

constexpr Kind kKinds[] = {
    {"whole", "whole", nullptr, whole},
    {"auto", nullptr, "recompute", automatic, true},
    {"swap", "swap", nullptr, swap},
    {"lms", "lms:auto, lms:THRESHOLD/AHEAD/GROUPBY/SYNC", "auto", lms},
    {"cuts", "cuts:N, cuts:auto", "auto", cuts},
    {"sections", "sections:N", "blocks", sections},
    {"sections+swap", "sections+swap:N", "blocks", sections_and_swap},
};

std::string form_of(const Kind& kind) {
  return kind.form != nullptr ? kind.form : searching_strategies("");
}

std::string all_forms() {
  std::string all;
  for (const std::string& form : strategy_forms()) all += (all.empty() ? "" : ", ") + form;
  return all + " (N: 1, 2, 4, ... or blocks)";
}

const Kind* kind_named(const std::string& kind) {
  const auto known = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return kind == k.name; });
  return known == std::end(kKinds) ? nullptr : known;
}

/// A strategy of that kind that can be asked for as it stands, with what was given behind the kind if it takes it.
std::string writable(const Kind& kind, const std::string& given) {
  if (kind.argument == nullptr || (kind.stands_alone && given.size() <= 1)) return kind.name;
  return kind.name + (given.size() > 1 ? given : text_of(":", kind.argument));
}

[[noreturn]] void throw_unknown(const std::string& name, const std::string& kind) {
  std::vector<std::string> kinds;
  for (const Kind& known : kKinds) kinds.emplace_back(known.name);
  const std::optional<std::string> near = nearest_spelling(kind, kinds);
  std::string meant;
  if (near) meant = "; did you mean '" + writable(*kind_named(*near), name.substr(kind.size())) + "'?";
  throw ArgumentError(error_text_of("'", name, "' is no strategy", meant, hint("strategies are ", all_forms())));
}

}  // namespace

std::vector<std::string> strategy_forms() {
  std::vector<std::string> forms;
  for (const Kind& kind : kKinds) forms.push_back(form_of(kind));
  return forms;
}

Strategy strategy_named(const std::string& name, const StrategySource& source) {
  const std::size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  const Kind* const known = kind_named(kind);
  if (known == nullptr) throw_unknown(name, kind);
  std::optional<std::string> argument;
  if (colon != std::string::npos) argument = name.substr(colon + 1);
  const bool takes_it = known->argument != nullptr && argument != "";
  SF_CHECK(argument ? takes_it : known->argument == nullptr || known->stands_alone, ArgumentError, "'", name,
           "' is no strategy; wanted ", form_of(*known),
           known->argument == nullptr ? "" : ", as in " + writable(*known, ""), hint("strategies are ", all_forms()));
  return known->make({name, argument, source});
}

std::string searching_strategies(const std::string& last) {
  std::string all;
  for (const SearchWay& way : kSearchWays) {
    const bool is_last = &way + 1 == std::end(kSearchWays) && !last.empty();
    all += (all.empty() ? "" : is_last ? " " + last + " " : ", ") + way.name();
  }
  return all;
}

bool plans_by_search(const std::string& name) {
  return name.substr(0, name.find(':')) == kSearchWays[0].name();
}

void check_plans_by_search(const std::string& option, const std::vector<std::string>& names) {
  if (std::ranges::any_of(names, plans_by_search)) return;
  std::string all;
  for (const std::string& name : names) all.append(all.empty() ? "" : ", ").append(name);
  throw ArgumentError(error_text_of(option, " is of plans that are searched for, and ", all, " takes none",
                                    hint("take the strategy ", searching_strategies("or"), ", or leave it out")));
}

std::string first_cut(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name.starts_with("sections") && name.find(':') != std::string::npos) return name.substr(name.find(':') + 1);
  }
  return "1";
}

}  // namespace sectionflow
