#include "graph/shared_variables.h"

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "graph/ops/basic.h"
#include "graph/shared_entry.h"

namespace sectionflow {

/// What all scopes of one SharedVariables know.
struct SharedState {
  struct Named {
    std::string path;  // below the scope
    Value variable;
  };

  const std::string name;
  std::vector<Named> variables{};
  Where made_at{};       // the scope that has made them, or does
  bool is_made = false;  // that scope has ended
  bool is_open = false;  // there is a scope
  int num_first = 0;     // scopes that were the first when they were opened

  void forget() noexcept {
    variables.clear();
    is_made = false;
    ++num_first;
  }
  const Named* find(const std::string& path) const {
    const auto found =
        std::find_if(variables.begin(), variables.end(), [&](const Named& named) { return named.path == path; });
    return found == variables.end() ? nullptr : &*found;
  }
  bool has(Value variable) const {
    return std::any_of(variables.begin(), variables.end(),
                       [&](const Named& named) { return named.variable == variable; });
  }
};

namespace {

// What takes back when the graph is rolled back; whoever is gone by then has nothing to take back.

std::function<void()> undo_of(const std::shared_ptr<SharedState>& state, Value variable) {
  return [state = std::weak_ptr(state), variable] {
    const auto kept = state.lock();
    if (!kept) return;
    std::erase_if(kept->variables, [&](const SharedState::Named& named) { return named.variable == variable; });
  };
}

std::function<void()> undo_of(const std::shared_ptr<std::set<std::string>>& asked, const std::string& path) {
  return [asked = std::weak_ptr(asked), path] {
    if (const auto kept = asked.lock()) kept->erase(path);
  };
}

}  // namespace

/// One open scope.
class SharedEntry {
 public:
  SharedEntry(std::shared_ptr<SharedState> state, std::string prefix, SharedVariables::Instead instead,
              std::shared_ptr<SharedEntry> outer)
      : outer(std::move(outer)),
        state_(std::move(state)),
        prefix_(std::move(prefix)),
        instead_(std::move(instead)),
        makes_(!state_->is_made),
        number_(state_->num_first),
        exceptions_(std::uncaught_exceptions()) {
    state_->is_open = true;
  }
  SharedEntry(const SharedEntry&) = delete;
  SharedEntry& operator=(const SharedEntry&) = delete;
  ~SharedEntry() {
    state_->is_open = false;
    if (!is_making()) return;
    state_->is_made = true;
    if (std::uncaught_exceptions() > exceptions_) state_->forget();
  }

  bool makes() const { return makes_; }
  bool has_instead() const { return instead_ != nullptr; }
  bool maps(Value variable) const { return instead_ != nullptr && state_->has(variable); }

  /// The variable of that name, which the first scope has made.
  Value find(Graph& graph, std::string_view name, const WantedVariable& wanted) {
    const std::string path = free_path(graph, name);
    const SharedState::Named* found = state_->find(path);
    if (found == nullptr) throw_missing(path, wanted);
    check_same(*found, wanted);
    note(graph, path);
    return found->variable;
  }

  /// Keeps a variable of this first scope, as long as the change that makes it is not taken back.
  void remember(Graph& graph, std::string_view name, Value variable) {
    if (!is_making()) return;
    std::string path = free_path(graph, name);
    graph.on_roll_back(undo_of(state_, variable));
    note(graph, path);
    state_->variables.push_back({std::move(path), variable});
  }

  /// What stands for a variable here.
  Value mapped(Graph& graph, Value variable) const {
    // What is made meanwhile is none of the scopes'.
    const GraphScope alone = graph.enter_shared(nullptr);
    const Value instead = instead_(variable);
    const auto got = [&] {
      if (!instead.valid()) return std::string("no value");
      if (&instead.graph() != &graph) return text_of("'", instead.name(), "' of another graph");
      return text_of("'", instead.name(), "' ", instead.type().text());
    };
    SF_CHECK_CODE(instead.valid() && &instead.graph() == &graph && instead.type() == variable.type(), ArgumentError,
                  ErrorCode::shared_variable, "shared variables '", state_->name, "': got ", got(), " instead of '",
                  variable.name(), "' ", variable.type().text(), "; wanted a value of that type",
                  hint("give the variable itself where nothing is to stand for it"));
    return instead;
  }

  /// The open scope around this one; nullptr: none.
  SharedEntry* around() const {
    SharedEntry* entry = outer.get();
    while (entry != nullptr && entry->is_closed) entry = entry->outer.get();
    return entry;
  }

  const std::shared_ptr<SharedEntry> outer;
  bool is_closed = false;  // its scope has ended, though one within may not have

 private:
  /// Whether it is the first scope, and what it has made has not been taken out of the graph.
  bool is_making() const { return makes_ && number_ == state_->num_first; }

  /// The name below the scope, numbered where it is asked for once more.
  std::string free_path(const Graph& graph, std::string_view name) const {
    const std::string full = name.starts_with('/') ? std::string(name) : graph.scope_prefix() + std::string(name);
    const std::string base = full.starts_with(prefix_) ? full.substr(prefix_.size()) : full;
    std::string path = base;
    for (int number = 1; asked_->contains(path); ++number) path = text_of(base, "_", number);
    return path;
  }

  void note(Graph& graph, const std::string& path) {
    graph.on_roll_back(undo_of(asked_, path));
    asked_->insert(path);
  }

  static std::string text(const WantedVariable& wanted) {
    return text_of(wanted.dtype ? dtype_name(*wanted.dtype) : "", wanted.shape,
                   wanted.trainable ? "" : " (not trained)");
  }

  [[noreturn]] void throw_missing(const std::string& path, const WantedVariable& wanted) const {
    std::vector<std::string> paths;
    for (const auto& named : state_->variables) paths.push_back(named.path);
    const auto nearest = nearest_spelling(path, paths);
    const std::string has = paths.empty() ? "it has made none" : text_of("it has made ", paths.size(), " others");
    throw ArgumentError(
        error_text_of(
            "shared variables '", state_->name, "': the first scope has made no '", path, "', asked for as ",
            text(wanted), "; ",
            nearest ? text_of("it has '", *nearest, "' ", state_->find(*nearest)->variable.type().text()) : has,
            earlier("the first scope, ", state_->made_at.text()),
            hint("call the same layers in every scope, in the same order or by names of their own")),
        ErrorCode::shared_variable);
  }

  void check_same(const SharedState::Named& named, const WantedVariable& wanted) const {
    const TensorType& type = named.variable.type();
    const bool is_same = type.shape == wanted.shape && type.dtype == wanted.dtype.value_or(type.dtype) &&
                         is_trainable(named.variable) == wanted.trainable;
    SF_CHECK_CODE(
        is_same, ArgumentError, ErrorCode::shared_variable, "shared variables '", state_->name, "': '", named.path,
        "' is asked for as ", text(wanted), "; the first scope has made it as ",
        text({type.shape, wanted.dtype ? std::optional(type.dtype) : std::nullopt, is_trainable(named.variable)}),
        earlier("'", named.variable.name(), "', ", named.variable.node().place()),
        hint("inputs and options must be as wide in every scope; what is to differ needs variables of its own"));
  }

  std::shared_ptr<SharedState> state_;
  std::string prefix_;
  SharedVariables::Instead instead_;
  bool makes_;
  int number_;  // of the first scope, where it is one
  int exceptions_;
  std::shared_ptr<std::set<std::string>> asked_ = std::make_shared<std::set<std::string>>();  // paths
};

// ---- For those that make variables.

std::optional<Value> shared_variable(Graph& graph, std::string_view name, const WantedVariable& wanted) {
  SharedEntry* const innermost = graph.shared_entry().get();
  SharedEntry* finder = innermost;
  while (finder != nullptr && finder->makes()) finder = finder->around();
  if (finder == nullptr) return std::nullopt;
  const Value variable = finder->find(graph, name, wanted);
  for (SharedEntry* inner = innermost; inner != finder; inner = inner->around()) inner->remember(graph, name, variable);
  for (SharedEntry* entry = innermost; entry != nullptr; entry = entry->around()) {
    if (entry->maps(variable)) return entry->mapped(graph, variable);
  }
  return variable;
}

void remember_variable(Graph& graph, std::string_view name, Value variable) {
  for (SharedEntry* entry = graph.shared_entry().get(); entry != nullptr; entry = entry->around()) {
    entry->remember(graph, name, variable);
  }
}

bool replaces_variables(const Graph& graph) {
  for (const SharedEntry* entry = graph.shared_entry().get(); entry != nullptr; entry = entry->around()) {
    if (entry->has_instead()) return true;
  }
  return false;
}

GraphScope Graph::enter_shared(std::shared_ptr<SharedEntry> entry) {
  if (entry == nullptr) {
    GraphScope scope([this, previous = shared_entry_] { shared_entry_ = previous; });
    shared_entry_ = nullptr;
    return scope;
  }
  // A scope that is kept in an optional may end before one within: what is entered then is the innermost that is open.
  GraphScope scope([this, entry] {
    entry->is_closed = true;
    while (shared_entry_ != nullptr && shared_entry_->is_closed) shared_entry_ = shared_entry_->outer;
  });
  shared_entry_ = std::move(entry);
  return scope;
}

// ---- For users.

SharedScope::SharedScope(std::shared_ptr<SharedEntry> entry, GraphScope names, GraphScope entered)
    : entry_(std::move(entry)), names_(std::move(names)), entered_(std::move(entered)) {}

SharedScope::~SharedScope() = default;

SharedVariables::SharedVariables(Graph& graph, std::string name)
    : graph_(&graph), state_(std::make_shared<SharedState>(SharedState{.name = std::move(name)})) {}

SharedScope SharedVariables::scope(Where where) {
  return scope(Instead(), where);
}

SharedScope SharedVariables::scope(Instead instead, Where where) {
  return call_at(where, [&] {
    SF_CHECK_CODE(!state_->is_open, ArgumentError, ErrorCode::shared_variable, "shared variables '", state_->name,
                  "': scope() within a scope of its own",
                  hint("end the first scope before: compute what it needs outside"));
    SF_CHECK_CODE(!instead || state_->is_made, ArgumentError, ErrorCode::shared_variable, "shared variables '",
                  state_->name, "': there are none yet for others to stand for",
                  hint("open a scope() first, which makes them"));
    return graph_->all_or_nothing([&] {
      GraphScope names = graph_->empty_scope(state_->name);
      auto entry =
          std::make_shared<SharedEntry>(state_, graph_->scope_prefix(), std::move(instead), graph_->shared_entry());
      if (entry->makes()) {
        state_->made_at = where;
        graph_->on_roll_back([state = std::weak_ptr(state_), number = state_->num_first] {
          const auto kept = state.lock();
          if (kept && kept->num_first == number) kept->forget();
        });
      }
      GraphScope entered = graph_->enter_shared(entry);
      return SharedScope(std::move(entry), std::move(names), std::move(entered));
    });
  });
}

std::vector<Value> SharedVariables::variables() const {
  std::vector<Value> variables;
  for (const auto& named : state_->variables) variables.push_back(named.variable);
  return variables;
}

}  // namespace sectionflow
