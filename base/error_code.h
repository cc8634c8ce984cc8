#pragma once

#include "base/export.h"

namespace SF_API sectionflow {

/// What went wrong, as a number that stays: it stands before every error text as "SF-E201", and docs/errors.md tells
/// for each what it means and what to do. A number is never given to another meaning.
enum class ErrorCode : int {
  // Building the graph.
  argument = 10,
  graph_cycle = 11,
  two_threads = 12,
  registration = 13,
  late_registration = 14,
  shared_variable = 15,
  branch_value = 16,
  shape = 20,
  no_gradient = 30,
  no_gradient_rule = 31,
  parameter_group = 32,
  micro_batches = 33,
  weight_average = 34,
  averages_in_place = 35,
  // Planning.
  budget = 101,
  plan_file = 102,
  // Whole-graph swapping.
  lms_parameter = 110,
  lms_scope = 111,
  lms_batch_size = 112,
  lms_tuning = 113,
  // Sections.
  second_manager = 200,
  nested_section = 201,
  open_section = 202,
  duplicate_section = 203,
  late_section = 204,
  not_prepared = 205,
  section_order = 206,
  broken_section = 207,
  nothing_to_train = 208,
  trained_twice = 209,
  swapped_graph = 210,
  cuts_and_scopes = 211,
  cuts_too_many = 212,
  cuts_misfit = 213,
  // Running.
  missing_feed = 301,
  unknown_feed = 302,
  feed_shape = 303,
  feed_dtype = 304,
  computed_feed = 305,
  fed_twice = 306,
  feed_not_finite = 307,
  unknown_fetch = 311,
  failed_assertion = 312,
  not_initialized = 321,
  pending_half = 322,
  torn_session = 323,
  // The world outside.
  data = 400,
  swap_damaged = 401,
  graph_file = 402,
  other_position = 403,
  damaged_position = 404,
  nothing_to_repeat = 405,
  uneven_batch = 406,
  damaged_record = 407,
  missing_library = 408,
  damaged_image = 409,
  example_mismatch = 410,
  unreadable_now = 411,
  checkpoint_failures = 420,
  no_checkpoint = 421,
  checkpoint_damaged = 422,
  checkpoint_in_use = 423,
  other_variables = 424,
  event_file = 430,
  event_content = 431,
  event_write = 432,
  other_trace = 433,
  device = 500,
  swap_folder = 501,
  disk_io = 502,
  // Training loops.
  example_names = 600,
  example_type = 601,
  batch_examples = 602,
  nothing_to_train_on = 603,
  fit_within_fit = 604,
  value_not_finite = 605,
  training_outlier = 606,
  unknown_monitor = 608,
  training_position = 609,
  unknown_file_kind = 610,
  endless_pass = 616,
  no_training_position = 617,
  // Ours.
  internal = 900,
};

}  // namespace sectionflow
