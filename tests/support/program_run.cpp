#include "tests/support/program_run.h"

#include "base/bytes.h"
#include "compare/compare_strategies.h"

namespace sectionflow::testing {

void fail(Failure::Kind kind, const std::string& mark, const std::string& text) {
  throw ProgramFault{{kind, mark, text}};
}

std::optional<Refusal> refusal_of(const std::function<void()>& call) {
  try {
    call();
    return std::nullopt;
  } catch (const BudgetError& error) {
    return Refusal{.code = error.code(), .text = error.what(), .minimum = error.minimum_bytes};
  } catch (const InternalError& error) {
    fail(Failure::Kind::exception, code_text(error.code()), error.what());
  } catch (const Error& error) {
    return Refusal{.code = error.code(), .text = error.what()};
  } catch (const std::exception& error) {
    fail(Failure::Kind::exception, "untyped", text_of("an exception that is no Error: ", error.what()));
  }
}

void expect_same(const std::string& who, const Outcome& found, const Outcome& wanted,
                 const std::vector<Value>& fetches) {
  const auto differs = [&](const std::string& what, const std::string& difference) {
    if (difference.empty()) return;
    fail(Failure::Kind::difference, "", text_of(who, ": ", what, " differs ", difference, ", the second is right"));
  };
  for (std::size_t i = 0; i < fetches.size(); ++i) {
    const std::string what = text_of("fetch ", i, ", '", fetches[i].name(), "',");
    differs(what, first_difference(found.fetched.at(i), wanted.fetched.at(i)));
  }
  for (const auto& [name, tensor] : wanted.variables) {
    const auto own = found.variables.find(name);
    if (own == found.variables.end()) fail(Failure::Kind::difference, "", text_of(who, ": no variable '", name, "'"));
    differs(text_of("variable '", name, "'"), first_difference(own->second, tensor));
  }
}

void expect_planned_memory(const std::string& who, const Session& session) {
  const Statistics& found = session.statistics();
  const auto expect = [&](const char* tier, std::size_t measured, std::size_t planned) {
    if (measured == planned) return;
    fail(Failure::Kind::complaint, tier, text_of(who, ": measured ", tier, " bytes ", measured, "; planned ", planned));
  };
  expect("device", found.measured_peak_bytes, found.planned_peak_bytes);
  expect("host", found.measured_host_peak_bytes, found.planned_host_peak_bytes);
  expect("disk", found.measured_disk_peak_bytes, found.planned_disk_peak_bytes);
}

SessionOptions session_options(const ProgramSpec& spec, std::size_t device_memory) {
  SessionOptions options = train_options(spec.model).session;
  options.device_memory = device_memory;
  if (options.disk > 0) options.disk = 8_MiB;
  options.swap_variables = spec.swap_variables;
  if (spec.random_delays) options.random_delays = spec.model.seed + 1;
  options.threads = spec.model.threads;
  options.seed = spec.model.seed + 7;
  options.poison = spec.poison;
  if (spec.forgets_programs) options.program_memory = 1;
  options.check_schedules = true;
  return options;
}

SessionOptions plain_options(const ProgramSpec& spec) {
  return {.device_memory = kAmpleMemory, .threads = spec.model.threads, .seed = spec.model.seed + 7};
}

void run_in_smallest_budget(const std::string& who, const std::function<void(std::size_t budget)>& attempt) {
  // Initial values and a step, with a step of another size in between: each may ask for more than what came before.
  constexpr int kMostRefusals = 6;
  const auto wanted = [&](std::size_t budget) -> std::optional<std::size_t> {
    const auto refusal = refusal_of([&] { attempt(budget); });
    if (!refusal) return std::nullopt;
    if (!refusal->minimum) fail(Failure::Kind::exception, code_text(refusal->code), who + ": " + refusal->text);
    return *refusal->minimum;
  };
  std::size_t budget = 1;
  for (int refusals = 0;; ++refusals) {
    const auto more = wanted(budget);
    if (!more) break;
    if (*more <= budget || refusals == kMostRefusals) {
      fail(Failure::Kind::complaint, "smallest budget",
           text_of(who, ": a budget of ", budget, " bytes was said to be enough, and is refused for one of ", *more));
    }
    budget = *more;
  }
  const auto less = wanted(budget - 1);
  if (less == budget) return;
  fail(Failure::Kind::complaint, "smallest budget",
       text_of(who, ": a byte less than ", budget, less ? " is refused for one of " : " is enough",
               less ? std::to_string(*less) : std::string()));
}

}  // namespace sectionflow::testing
