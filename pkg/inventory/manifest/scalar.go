package manifest

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// scalarType is the type that a plain scalar resolves to.
type scalarType uint8

const (
	str scalarType = iota
	null
	boolean
	integer
	float
)

func (t scalarType) String() string {
	return [...]string{"a string", "null", "a boolean", "a number", "a number"}[t]
}

// resolve says what a plain scalar is, as kubectl sees it: by the rules of
// YAML 1.1, where yes and on are booleans too.
// Source: go.yaml.in/yaml/v2, which sigs.k8s.io/yaml is built on.
func resolve(text string) scalarType {
	if text == "" {
		return null
	}
	switch c := text[0]; {
	case c == '.' || c == '+' || c == '-' || '0' <= c && c <= '9':
		return resolveNumber(text)
	case strings.IndexByte("~nNtTfFyYoO", c) < 0 || len(text) > len("false"):
		return str
	}
	return resolveWord(text)
}

func resolveWord(text string) scalarType {
	switch text {
	case "~", "null", "Null", "NULL":
		return null
	case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON",
		"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
		return boolean
	}
	return str
}

// truth returns the value of a scalar that resolves to boolean.
func truth(text string) bool {
	return strings.IndexByte("yYtT", text[0]) >= 0 || len(text) == 2 && strings.IndexByte("nN", text[1]) >= 0
}

var floats = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

func resolveNumber(text string) scalarType {
	if len(text) <= len("+.inf") && infinities[strings.ToLower(strings.TrimLeft(text, "+-"))] {
		return float
	}
	plain := strings.ReplaceAll(text, "_", "")
	_, signed := strconv.ParseInt(plain, 0, 64)
	_, unsigned := strconv.ParseUint(plain, 0, 64)
	switch {
	case signed == nil || unsigned == nil:
		return integer
	case floats.MatchString(plain):
		return float
	}
	return str
}

var infinities = map[string]bool{".inf": true, ".nan": true}

// parseWhole reads a decimal, hexadecimal, octal or binary integer, or a float
// without a fraction: JSON has one type of numbers.
func parseWhole(text string) (int64, bool) {
	plain := strings.ReplaceAll(text, "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return i, true
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil || math.Abs(f) > exact || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

// exact is up to where a float holds every integer.
const exact = 1 << 53
