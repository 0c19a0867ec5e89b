package classify

var virtualResource = &Check{
	Name:     "virtual-resource",
	Summary:  "A webhook intercepts resources that are never stored, such as SubjectAccessReviews.",
	Severity: Critical,
	Find:     func(p Profile) []Problem { return nil },
}
