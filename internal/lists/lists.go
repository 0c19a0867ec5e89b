// Package lists has what the standard library's slices lack.
package lists

import (
	"fmt"
	"slices"
)

// Once keeps the first of equal values, in their order.
func Once[T comparable](values []T) []T {
	var out []T
	for _, w := range values {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// Map is what the function makes of each value.
func Map[T, U any](values []T, convert func(T) U) []U {
	out := slices.Grow([]U(nil), len(values))
	for _, v := range values {
		out = append(out, convert(v))
	}
	return out
}

// Distinct sorts the words in place, and returns each once.
func Distinct(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// Strings are the values as strings.
func Strings[S ~string](values []S) []string {
	return Map(values, func(v S) string { return string(v) })
}

// Filter are the values to keep.
func Filter[T any](values []T, keep func(T) bool) []T {
	var out []T
	for _, v := range values {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}

// Bounded keeps so many of the texts; where there are others, the last one says how many.
func Bounded(texts []string, most int, others string) []string {
	if len(texts) <= most {
		return texts
	}
	return append(slices.Clip(texts[:most]), fmt.Sprintf(others, len(texts)-most))
}

// Group are the values by what some have in common, in the order of the first ones.
func Group[T any, K comparable](values []T, keyOf func(T) K) [][]T {
	var out [][]T
	places := map[K]int{}
	for _, v := range values {
		key := keyOf(v)
		if _, ok := places[key]; !ok {
			places[key] = len(out)
			out = append(out, nil)
		}
		out[places[key]] = append(out[places[key]], v)
	}
	return out
}

// By are the values by a key; of several with the same key, the last one.
func By[T any, K comparable](values []T, keyOf func(T) K) map[K]T {
	out := make(map[K]T, len(values))
	for _, v := range values {
		out[keyOf(v)] = v
	}
	return out
}
