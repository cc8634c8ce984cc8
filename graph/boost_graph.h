#pragma once

#include <boost/graph/graph_traits.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/property_map/property_map.hpp>
#include <utility>

#include "graph/traversal.h"

// The adaptor that lets Boost.Graph's algorithms run on a DependencyGraph: it models VertexListGraph, EdgeListGraph and
// IncidenceGraph. Vertices are node numbers, edges are edge numbers, directed from a node to what it depends on.

namespace boost {

template <>
struct graph_traits<sectionflow::DependencyGraph> {
  using vertex_descriptor = sectionflow::NodeId;
  using edge_descriptor = int;
  using directed_category = directed_tag;
  using edge_parallel_category = allow_parallel_edge_tag;
  struct traversal_category : vertex_list_graph_tag, edge_list_graph_tag, incidence_graph_tag {};
  using vertices_size_type = std::size_t;
  using edges_size_type = std::size_t;
  using degree_size_type = std::size_t;
  using vertex_iterator = counting_iterator<sectionflow::NodeId>;
  using edge_iterator = counting_iterator<int>;
  using out_edge_iterator = counting_iterator<int>;
  static vertex_descriptor null_vertex() { return -1; }
};

}  // namespace boost

namespace sectionflow {

using BoostTraits = boost::graph_traits<DependencyGraph>;

inline std::pair<BoostTraits::vertex_iterator, BoostTraits::vertex_iterator> vertices(const DependencyGraph& graph) {
  return {BoostTraits::vertex_iterator(0), BoostTraits::vertex_iterator(graph.num_nodes())};
}
inline std::size_t num_vertices(const DependencyGraph& graph) {
  return static_cast<std::size_t>(graph.num_nodes());
}
inline std::pair<BoostTraits::edge_iterator, BoostTraits::edge_iterator> edges(const DependencyGraph& graph) {
  return {BoostTraits::edge_iterator(0), BoostTraits::edge_iterator(graph.num_edges())};
}
inline std::size_t num_edges(const DependencyGraph& graph) {
  return static_cast<std::size_t>(graph.num_edges());
}
inline std::pair<BoostTraits::out_edge_iterator, BoostTraits::out_edge_iterator> out_edges(
    NodeId node, const DependencyGraph& graph) {
  return {BoostTraits::out_edge_iterator(graph.first_edge(node)), BoostTraits::out_edge_iterator(graph.end_edge(node))};
}
inline std::size_t out_degree(NodeId node, const DependencyGraph& graph) {
  return static_cast<std::size_t>(graph.end_edge(node) - graph.first_edge(node));
}
inline NodeId source(int edge, const DependencyGraph& graph) {
  return graph.edge_source(edge);
}
inline NodeId target(int edge, const DependencyGraph& graph) {
  return graph.edge_target(edge);
}
inline boost::typed_identity_property_map<NodeId> get(boost::vertex_index_t, const DependencyGraph&) {
  return {};
}

}  // namespace sectionflow

namespace boost {
template <>
struct property_map<sectionflow::DependencyGraph, vertex_index_t> {
  using type = typed_identity_property_map<sectionflow::NodeId>;
  using const_type = type;
};
}  // namespace boost
