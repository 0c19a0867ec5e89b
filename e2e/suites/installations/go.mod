module github.com/webhook-auditor/webhook-auditor/e2e/suites/installations

go 1.26.0
